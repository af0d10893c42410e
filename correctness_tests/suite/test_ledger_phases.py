"""Property: the ledger's phases balance, say what resharding is worth, and refuse what they do not know."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures import ledger
from fixtures.errors import UsageError
from fixtures.measurements import GIB
from fixtures.workloads import build_cheaply, resolve_workload, unit_shapes

pytestmark = pytest.mark.cpu

ARMS = ["single", "ddp", "fsdp1", "fsdp2", "fsdp2-noreshard"]


def mlp_shapes(layers: int, width: int, hidden: int) -> list[list[tuple[int, ...]]]:
    """Of the blocks of ``fixtures.models.MLP``."""
    return [[(hidden, width), (hidden,), (width, hidden), (width,)]] * layers


def phases(
    strategy: str, layers: int = 3, width: int = 6, hidden: int = 10, world_size: int = 4, rank: int = 0
) -> dict[str, dict[str, int]]:
    """Of an MLP of this size, in mixed precision."""
    activations = ledger.mlp_activations(layers, width, hidden, 5, ledger.casting_of(strategy, "mixed"))
    return ledger.phase_buffers(strategy, mlp_shapes(layers, width, hidden), [], world_size, rank, "mixed", activations)


@given(
    strategy=st.sampled_from(ARMS),
    layers=st.integers(1, 5),
    width=st.integers(1, 20),
    hidden=st.integers(1, 20),
    world_size=st.integers(2, 9),
    data=st.data(),
)
def test_a_step_ends_as_it_began(
    strategy: str, layers: int, width: int, hidden: int, world_size: int, data: st.DataObject
) -> None:
    """Whatever is taken is freed: between steps there is what is resident and the batch, and a peak is no less than
    what its phase ends with."""
    rank = data.draw(st.integers(0, world_size - 1))
    found = {name: sum(b.values()) for name, b in phases(strategy, layers, width, hidden, world_size, rank).items()}
    resident = ledger.resident_buffers(strategy, mlp_shapes(layers, width, hidden), world_size, rank)
    assert found["resident"] == sum(resident.values()) + 4 * 2 * 5 * width
    assert all(found[f"peak_{phase}"] >= found[f"after_{phase}"] for phase in ("forward", "backward", "optimizer"))


def test_without_reshard_forward_ends_with_every_block_whole() -> None:
    """After forward the arms differ by the gathered blocks of GPT-2 Large: 1.32 GiB, the published price, exactly."""
    workload = resolve_workload("gpt2-large")
    blocks, root = unit_shapes(workload, build_cheaply(workload))
    rough = ledger.rough_work(saved=1 << 27, forward_peak=1 << 26, backward_peak=1 << 27, parameters=len(blocks[0]))
    head = ledger.rough_work(saved=1 << 27, forward_peak=1 << 26, backward_peak=1 << 27, parameters=len(root))
    activations = ledger.Activations(batch=0, blocks=(rough,) * len(blocks), head=head)
    after, whole = (
        ledger.phase_buffers(strategy, blocks, root, 8, 0, "mixed", activations)["after_forward"]
        for strategy in ("fsdp2", "fsdp2-noreshard")
    )
    price = sum(whole.values()) - sum(after.values())
    assert price == sum(ledger.gather_bytes(block, 8, "mixed") for block in blocks)
    assert round(price / GIB, 2) == 1.32


def test_forward_holds_two_gathers_and_a_unit() -> None:
    """FSDP2 gathers a block while the last one's output is still held, and copies it out: three units at the peak."""
    unit = ledger.gather_bytes(mlp_shapes(1, 6, 10)[0], 4, "mixed")
    peak = phases("fsdp2")["peak_forward"]
    assert (peak["all-gather outputs"], peak["gathered units"]) == (2 * unit, unit)


def test_the_moment_of_a_peak_has_a_name() -> None:
    """Each peak says where in the step it is."""
    activations = ledger.mlp_activations(3, 6, 10, 5, "policy")
    moments = ledger.phase_moments("fsdp2", mlp_shapes(3, 6, 10), [], 4, 0, "mixed", activations)
    assert moments["peak_forward"].where == "gather of block 2"
    assert moments["peak_optimizer"].where == "AdamW"


def test_what_has_no_phases_is_named() -> None:
    """A strategy, a world, a dtype or a model that the phases do not know is an error that says so."""
    activations = ledger.mlp_activations(1, 6, 10, 5, "policy")
    half = [ledger.Parameter((4,), "bfloat16")]

    def of(strategy: str, blocks: list[ledger.Unit], world_size: int = 2) -> Callable[[], object]:
        return lambda: ledger.phase_buffers(strategy, blocks, [], world_size, 0, "mixed", activations)

    shapes: list[ledger.Unit] = [*mlp_shapes(1, 6, 10)]
    for case, words in (
        (of("zero4", shapes), "zero4.*fsdp2"),
        (of("fsdp2", shapes, 1), "N = 1"),
        (of("fsdp1", shapes, 1), "N = 1"),
        (of("fsdp2", [half]), "float32 parameters only"),
        (of("fsdp2", shapes * 2), "2 blocks of parameters, 1 of activations"),
    ):
        with pytest.raises(UsageError, match=words):
            case()
