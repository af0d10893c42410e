"""Property: the arms' traffic differs by exactly what their designs say, and no step talks on the side."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures import ledger
from fixtures.gate.budgets import compared
from fixtures.session.budgets import BUDGET_ARMS, WORKLOADS, WORLD_SIZE, Budgets
from fixtures.workloads import build_cheaply, resolve_workload, unit_shapes
from perf_tests.budgets import UNEVEN

pytestmark = pytest.mark.cpu

BF16, FP32 = 2, 4
COLLECTIVES = {"all-gather", "reduce-scatter", "all-reduce"}

Shape = tuple[int, ...]
SHAPES = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=2).map(tuple), min_size=1, max_size=6)


def sums(budgets: Budgets, workload: str, arm: str) -> dict[str, int]:
    """Count and bytes of each kind and dtype in one steady step."""
    return budgets.reading(workload, arm).readings["traffic"].figures


def events(budgets: Budgets, workload: str, arm: str) -> Counter[str]:
    """The messages of one steady step: phase, kind, dtype and bytes."""
    return Counter(map(compared, budgets.reading(workload, arm).readings["traffic"].events))


def row_padding(unit: list[Shape], world_size: int) -> int:
    """Elements that FSDP2 adds to a unit: rows of each parameter up to a multiple of N."""
    return sum((-shape[0] % world_size) * math.prod(shape[1:]) for shape in unit)


def flat_padding(unit: list[Shape], world_size: int, width: int) -> int:
    """Elements that FSDP1 adds: each parameter but the first begins at 16 bytes, and the whole is a multiple of N."""
    size = 0
    for shape in unit:
        size += -size % (16 // width) + math.prod(shape)
    return size + -size % world_size - ledger.num_params(unit)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_fsdp2_moves_the_bytes_of_fsdp1(budgets: Budgets, workload: str) -> None:
    """Rows a multiple of N, elements of 8: count, dtype and bytes of all messages are the same in both designs."""
    blocks, root = unit_shapes(resolve_workload(workload), build_cheaply(resolve_workload(workload)))
    parameters = [shape for unit in [*blocks, root] for shape in unit]
    assert all(s[0] % WORLD_SIZE == 0 and math.prod(s) % 8 == 0 for s in parameters), f"{workload} is of other shapes"
    flat, rows = (sums(budgets, workload, arm) for arm in ("fsdp1", "fsdp2"))
    assert rows == flat, (
        f"one step of {workload} on cpu-solo-{WORLD_SIZE}: fsdp1 sends {flat}, fsdp2 {rows}.\n"
        "Sharding by rows costs no extra communication where rows divide: one of the two gathers or pads more."
    )


def test_elsewhere_they_differ_by_their_padding(budgets: Budgets) -> None:
    """Rows that N does not divide: FSDP2 sends its padded rows more, FSDP1 its alignment and its end, exactly."""
    blocks, root = unit_shapes(resolve_workload(UNEVEN), build_cheaply(resolve_workload(UNEVEN)))
    flat, rows = (sums(budgets, UNEVEN, arm) for arm in ("fsdp1", "fsdp2"))
    more = [row_padding(unit, WORLD_SIZE) - flat_padding(unit, WORLD_SIZE, BF16) for unit in [*blocks, root]]
    known = {"all-gather bfloat16": BF16 * (sum(more) + sum(more[:-1])), "reduce-scatter float32": FP32 * sum(more)}
    read = {kind: rows[f"{kind} bytes"] - flat[f"{kind} bytes"] for kind in known}
    assert read == known, (
        f"one step of {UNEVEN} on cpu-solo-{WORLD_SIZE}: fsdp2 sends {read} bytes more than fsdp1, by the padding of "
        f"their shapes {known}. A unit is padded otherwise than test_padding_in_general states."
    )
    assert all(read.values()), "this workload was to differ"


@given(unit=SHAPES, world_size=st.sampled_from([2, 3, 4, 8, 64]))
def test_padding_in_general(unit: list[Shape], world_size: int) -> None:
    """Any shapes, any N: the ledger's two messages of a unit differ by row padding less alignment, and by no more."""
    gathered = {
        arm: ledger.steady_collectives(arm, [], unit, world_size, "mixed")[0].bytes for arm in ("fsdp1", "fsdp2")
    }
    more = row_padding(unit, world_size) - flat_padding(unit, world_size, BF16)
    assert gathered["fsdp2"] - gathered["fsdp1"] == BF16 * more


@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_reshard_saves_one_gather_of_each_block(budgets: Budgets, workload: str) -> None:
    """Without resharding the step is the same but for one all-gather of each block, all of them in backward."""
    kept, resharded = (events(budgets, workload, arm) for arm in ("fsdp2-noreshard", "fsdp2"))
    blocks = unit_shapes(resolve_workload(workload), build_cheaply(resolve_workload(workload)))[0]
    sizes = [BF16 * (ledger.num_params(block) + row_padding(block, WORLD_SIZE)) for block in blocks]
    known = Counter(f"backward all-gather bfloat16 {size}" for size in sizes)
    assert (resharded - kept, kept - resharded) == (known, Counter()), (
        f"one step of {workload} on cpu-solo-{WORLD_SIZE}: no-reshard saves {dict(resharded - kept)} and adds "
        f"{dict(kept - resharded)}; it is to save {dict(known)} and add nothing. The knob does something else, or less."
    )


@pytest.mark.parametrize("arm", BUDGET_ARMS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_steady_step_talks_of_nothing_but_tensors(budgets: Budgets, workload: str, arm: str) -> None:
    """No broadcast, no barrier, no object: pickled ones travel as bytes (uint8) behind their sizes (int64)."""
    found = events(budgets, workload, arm)
    astray = {
        text: count
        for text, count in found.items()
        if text.split(" ")[1] not in COLLECTIVES or not text.split(" ")[2].startswith(("float", "bfloat"))
    }
    assert not astray, (
        f"one steady step of {arm}, {workload} on cpu-solo-{WORLD_SIZE} sends {astray}. A broadcast or an object in "
        "every step makes all ranks wait for one and the host for both: it belongs before the first step."
    )
