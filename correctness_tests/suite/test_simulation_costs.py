"""Property: what a simulated event takes comes from FLOPs, bytes and a bandwidth table, by arithmetic done by hand."""

from __future__ import annotations

import pytest

from fixtures.bandwidth import PUBLISHED
from fixtures.errors import UsageError
from fixtures.ledger import Parameter
from fixtures.simulation.costs import AUTOCAST, FOREACH_ADAMW, Gpu, StepCosts, from_table, with_reduce_scatter
from fixtures.simulation.network import Algorithm, Network
from fixtures.simulation.specs import ModelSpec, UnitSpec
from fixtures.timelines import Event, EventKind

pytestmark = pytest.mark.cpu

GPU = Gpu(step_ms=100.0, memory_gb_per_s=1000.0)
MODEL = ModelSpec((UnitSpec("block 0", (Parameter((1000, 1000)),), 10, 20),), UnitSpec("root", (), 30, 40), ())
NETWORK = Network(per_node=8, inside_gb_per_s=400.0, between_gb_per_s=50.0, inside_us=1.0, between_us=10.0)


def costs(strategy: str) -> StepCosts:
    """Of a model of a million parameters on 8 ranks."""
    return StepCosts(strategy, MODEL, 8, GPU, lambda event: 0.0)


def network_ms(kind: EventKind, world_size: int, algorithm: Algorithm) -> float:
    """The time of a message of 100 MB."""
    return NETWORK.communication(world_size, algorithm)(Event(kind=kind, unit="", bytes=100_000_000))


def test_computation_adds_up_to_the_step_of_one_gpu() -> None:
    """All pieces of a replicated step, with its optimizer, take what one GPU takes."""
    pieces = [Event(kind="forward", unit="", flops=40), Event(kind="backward", unit="", flops=60)]
    assert sum(map(costs("ddp").compute_ms, [*pieces, Event(kind="optimizer")])) == pytest.approx(100.0)


def test_a_sharded_step_saves_casts_and_most_of_the_optimizer() -> None:
    """At 1 TB/s a byte of each of a million parameters takes a microsecond: so many less, and 1 / 8 of AdamW."""
    whole, sharded = costs("ddp"), costs("fsdp2")
    assert whole.optimizer_ms == pytest.approx(FOREACH_ADAMW / 1000)
    assert sharded.optimizer_ms == pytest.approx(FOREACH_ADAMW / 8000)
    assert whole.products_ms - sharded.products_ms == pytest.approx(AUTOCAST / 1000)


@pytest.mark.parametrize(("kind", "moved"), [("all-gather", 2.0), ("reduce-scatter", 1.5), ("all-reduce", 2.0)])
def test_a_copy_reads_and_writes(kind: EventKind, moved: float) -> None:
    """A megabyte copied at 1 TB/s: read and written, bfloat16 gradients at half their float32 message."""
    assert costs("fsdp2").copy_ms(Event(kind=kind, unit="", bytes=1_000_000)) == pytest.approx(moved / 1000)


@pytest.mark.parametrize(("source", "gb_per_s"), [("all-reduce", 20.4), ("all-gather", 21.8)])
def test_a_reduce_scatter_has_the_bus_bandwidth_of_its_source(source: str, gb_per_s: float) -> None:
    """An all-reduce sends twice what a reduce-scatter does; an all-gather as much."""
    table = from_table(with_reduce_scatter(PUBLISHED, source))
    assert table(Event(kind="reduce-scatter", unit="", bytes=10**9)) == pytest.approx(1e3 / gb_per_s)


def test_inside_a_node_every_algorithm_is_a_ring() -> None:
    """8 ranks send 7 / 8 of the message at 400 GB/s in 7 steps of a microsecond; an all-reduce does so twice."""
    once = 7 / 8 * 0.25 + 0.007
    for algorithm in Algorithm:
        assert network_ms("all-gather", 8, algorithm) == pytest.approx(once)
        assert network_ms("all-reduce", 8, algorithm) == pytest.approx(2 * once)


def test_between_nodes_steps_tell_algorithms_apart() -> None:
    """64 ranks: 63 slow steps of one ring; 7 between and 7 inside of two; 3 between and 7 inside with trees."""
    sent_between, sent_inside = 7 / 8 * 0.25, 7 / 8 * 0.25  # an eighth of the message at an eighth of the bandwidth
    assert network_ms("all-gather", 64, Algorithm.FLAT) == pytest.approx(63 / 64 * 0.25 + 0.63)
    assert network_ms("all-gather", 64, Algorithm.RINGS) == pytest.approx(sent_between + sent_inside + 0.07 + 0.007)
    assert network_ms("all-gather", 64, Algorithm.TREES) == pytest.approx(sent_between + sent_inside + 0.03 + 0.007)


def test_a_half_full_node_is_refused() -> None:
    """A world that does not fill its nodes is named, with what to simulate instead."""
    with pytest.raises(UsageError, match="a world size of 12 leaves a node of 8 GPUs half full: simulate a multiple"):
        NETWORK.communication(12, Algorithm.FLAT)
