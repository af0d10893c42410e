"""Property: the ledger's arithmetic gives the published figures, and its parts add up for every shape and N."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures import ledger
from fixtures.errors import UsageError
from fixtures.measurements import GIB, CollectiveTally

pytestmark = pytest.mark.cpu

GPT2_LARGE = 774_090_240
SHAPES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=5)


@pytest.mark.parametrize(("strategy", "gib"), [("ddp", 11.5), ("fsdp2", 1.08)])
def test_published_resident(strategy: str, gib: float) -> None:
    """16 psi and 12 psi / 8 for GPT-2 Large are the write-up's 11.5 and 1.08 GiB, to its last digit."""
    digits = len(str(gib).partition(".")[2])
    assert round(ledger.published_resident_bytes(strategy, GPT2_LARGE, 8) / GIB, digits) == gib


def test_published_price_of_no_reshard() -> None:
    """One bfloat16 model of GPT-2 Large is the write-up's 1.44 GiB."""
    assert round(ledger.published_unsharded_bytes(GPT2_LARGE) / GIB, 2) == 1.44


@given(rows=st.integers(0, 200), world_size=st.integers(1, 16))
def test_rows_of_all_ranks_are_the_rows(rows: int, world_size: int) -> None:
    """Shards add up to the rows; full ones come first, then at most one that is shorter, then empty ones."""
    shards = [ledger.shard_rows(rows, world_size, rank) for rank in range(world_size)]
    assert sum(shards) == rows
    assert shards == sorted(shards, reverse=True)
    assert sum(0 < shard < ledger.chunk_rows(rows, world_size) for shard in shards) <= 1


def test_ten_rows_over_eight_ranks() -> None:
    """torch.chunk's cut, as measured: 2, 2, 2, 2, 2, 0, 0, 0."""
    assert [ledger.shard_rows(10, 8, rank) for rank in range(8)] == [2, 2, 2, 2, 2, 0, 0, 0]


@given(shapes=SHAPES, world_size=st.integers(1, 9))
def test_sharded_state_of_all_ranks_is_the_model(shapes: list[tuple[int, int]], world_size: int) -> None:
    """Over all ranks parameters are 4 psi and moments 8 psi, and stored parameters are of one size on each rank."""
    ranks = [ledger.resident_buffers("fsdp2", [shapes], world_size, rank) for rank in range(world_size)]
    psi = ledger.num_params(shapes)
    assert sum(buffers["parameters"] for buffers in ranks) == 4 * psi
    assert sum(buffers["moments"] for buffers in ranks) == 8 * psi
    assert len({buffers["parameters"] + buffers["padding"] for buffers in ranks}) == 1


@given(shapes=SHAPES, world_size=st.integers(1, 9), precision=st.sampled_from(["mixed", "fp32"]))
def test_flat_state_of_all_ranks_is_the_model(
    shapes: list[tuple[int, int]], world_size: int, precision: ledger.Precision
) -> None:
    """FSDP1's runs of elements cover each parameter once, wherever they cut."""
    ranks = [ledger.resident_buffers("fsdp1", [shapes], world_size, rank, precision) for rank in range(world_size)]
    assert sum(buffers["parameters"] for buffers in ranks) == 4 * ledger.num_params(shapes)


@given(rows=st.integers(1, 50), columns=st.integers(1, 50), units=st.integers(1, 5), world_size=st.integers(1, 8))
def test_without_rounding_the_ledger_is_the_published_arithmetic(
    rows: int, columns: int, units: int, world_size: int
) -> None:
    """When N divides every row count, FSDP2 holds 12 psi / N and DDP 16 psi, but for steps and mesh."""
    shapes = [[(rows * world_size, columns)]] * units
    psi = units * rows * world_size * columns
    sharded = ledger.resident_buffers("fsdp2", shapes, world_size, rank=0)
    assert sharded["padding"] == 0
    assert sharded["parameters"] + sharded["moments"] == ledger.published_resident_bytes("fsdp2", psi, world_size)
    replicated = ledger.resident_buffers("ddp", shapes, world_size, rank=0)
    assert sum(replicated.values()) - replicated["steps"] == ledger.published_resident_bytes("ddp", psi, world_size)


def test_resharding_costs_one_gather_of_the_blocks() -> None:
    """The knob saves backward's gather of each block and nothing else; gathers are bfloat16, reductions float32."""
    blocks, root = [[(8, 4)]] * 3, [(4, 4)]
    fsdp2 = ledger.steady_collectives("fsdp2", blocks, root, 4, "mixed")
    noreshard = ledger.steady_collectives("fsdp2-noreshard", blocks, root, 4, "mixed")
    assert fsdp2[0] == CollectiveTally(kind="all-gather", dtype="bfloat16", count=7, bytes=2 * (6 * 32 + 16))
    assert noreshard[0] == CollectiveTally(kind="all-gather", dtype="bfloat16", count=4, bytes=2 * (3 * 32 + 16))
    assert fsdp2[1] == noreshard[1] == CollectiveTally(kind="reduce-scatter", dtype="float32", count=4, bytes=4 * 112)


@given(shapes=SHAPES, world_size=st.integers(1, 9))
def test_padding_makes_every_message_divisible(shapes: list[tuple[int, int]], world_size: int) -> None:
    """A unit's message is N equal parts, at least the parameters and less than one more row of each for each rank."""
    (_, reduced) = ledger.steady_collectives("fsdp2", [], shapes, world_size, "fp32")
    numel, rest = divmod(reduced.bytes, 4 * world_size)
    assert rest == 0
    assert ledger.num_params(shapes) <= numel * world_size
    assert numel * world_size < ledger.num_params(shapes) + world_size * sum(math.prod(shape[1:]) for shape in shapes)


def test_a_root_without_parameters_sends_nothing() -> None:
    """When the blocks hold all parameters, the root unit has no message."""
    assert [tally.count for tally in ledger.steady_collectives("fsdp2", [[(4, 4)]], [], 2, "mixed")] == [2, 1]


@pytest.mark.parametrize("entry", ["resident", "messages", "gradients"])
def test_an_unknown_strategy_is_named(entry: str) -> None:
    """A strategy that the ledger cannot account for is an error that lists those it can."""
    entries: dict[str, Callable[[], object]] = {
        "resident": lambda: ledger.resident_buffers("zero3", [], 2, 0),
        "messages": lambda: ledger.steady_collectives("zero3", [], [], 2, "mixed"),
        "gradients": lambda: ledger.gradient_bytes("zero3", [], 2),
    }
    with pytest.raises(UsageError, match=r"zero3.*fsdp2"):
        entries[entry]()


def test_explain_names_every_buffer() -> None:
    """The message of a failing budget shows each buffer and the sum."""
    assert ledger.explain({"parameters": 4000, "steps": 8}) == "parameters 4,000 + steps 8 = 4,008 bytes"
