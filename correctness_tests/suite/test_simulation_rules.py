"""Property: what overlaps and what waits in a simulated step is what FSDP2's and DDP's streams allow."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.errors import UsageError
from fixtures.ledger import Parameter
from fixtures.simulation.choreography import Prefetch, step_events
from fixtures.simulation.rules import Lanes, order_timeline, simulate, timeline
from fixtures.simulation.scaling import hybrid_events
from fixtures.simulation.specs import ModelSpec, UnitSpec, deepened
from fixtures.simulation.streams import Placed, step_ms
from fixtures.timelines import Event

pytestmark = pytest.mark.cpu

ARMS = ("single", "ddp", "fsdp2", "fsdp2-noreshard")


@dataclass(frozen=True)
class Fixed:
    """Every block's forward takes ``forward`` ms, its backward ``backward``, and so on; the root computes nothing."""

    forward: float = 1.0
    backward: float = 2.0
    gather: float = 1.0
    reduce: float = 1.0
    copy: float = 0.0
    optimizer: float = 0.0

    def compute_ms(self, event: Event) -> float:
        """By kind, a piece by its share."""
        whole = {"forward": self.forward, "backward": self.backward, "optimizer": self.optimizer}
        return whole[event.kind] * event.share

    def collective_ms(self, event: Event) -> float:
        """By kind."""
        return self.gather if event.kind == "all-gather" else self.reduce

    def copy_ms(self, event: Event) -> float:
        """The same for all."""
        return self.copy


def blocks(count: int, rows: int = 8) -> ModelSpec:
    """Nothing but blocks, each with one parameter of ``rows`` x 1024."""
    parameter = Parameter((rows, 1024))
    units = tuple(UnitSpec(f"block {i}", (parameter,), 1, 2) for i in range(count))
    return ModelSpec(units, UnitSpec("root", ()), tuple((unit.name, parameter) for unit in units[::-1]))


def step(
    strategy: str, count: int, costs: Fixed, lanes: Lanes = Lanes.COMMUNICATOR, prefetch: Prefetch | None = None
) -> float:
    """Length of a step of a model of so many blocks on 8 ranks."""
    return step_ms(simulate(step_events(strategy, blocks(count), 8, prefetch=prefetch), costs, lanes))


def when(placed: list[Placed], kind: str, unit: str) -> Placed:
    """The last task of this kind and unit."""
    return [p for p in placed if (p.task.kind, p.task.unit) == (kind, unit)][-1]


def test_one_block_overlaps_nothing() -> None:
    """A step of one block is the sum of its parts, but that backward's gather, issued ahead, is over forward."""
    assert step("fsdp2", 1, Fixed(1, 2, 4, 8, 0.5, 16)) == 4 + 0.5 + max(1, 4) + 0.5 + 2 + 0.5 + 8 + 16


def test_one_block_that_is_kept_gathers_once() -> None:
    """Without resharding the same step is the sum of its parts, with one gather and one copy out of it."""
    assert step("fsdp2-noreshard", 1, Fixed(1, 2, 4, 8, 0.5, 16)) == 4 + 0.5 + 1 + 2 + 0.5 + 8 + 16


def test_fast_communication_hides_all_but_the_ends() -> None:
    """Slow computation hides every gather but each pass's first, and every reduce-scatter but the last."""
    costs = Fixed(forward=10, backward=20, gather=1, reduce=2)
    assert step("fsdp2", 5, costs) == (1 + 5 * 10) + (0 + 5 * 20) + 2  # backward's first gather is under forward's last


def test_slow_communication_hides_computation() -> None:
    """A communicator that never rests: all gathers and reduce-scatters, with the last block's computation between."""
    costs = Fixed(forward=1, backward=1, gather=10, reduce=20)
    forward, backward = 5 * 10, 5 * 10 + 5 * 20
    assert forward + backward <= step("fsdp2", 5, costs) <= forward + backward + 5


def test_without_prefetch_backward_waits_for_every_gather() -> None:
    """Backward that gathers a block in its own turn exposes each gather behind the reduce-scatter before it."""
    costs = Fixed(forward=10, backward=20, gather=1, reduce=2)
    assert step("fsdp2", 5, costs, prefetch=Prefetch(backward=False)) == step("fsdp2", 5, costs) + 4 * (1 + 2)


def test_a_group_of_its_own_frees_reductions_from_gathers() -> None:
    """With two communicators gathers and reduce-scatters run at once, and backward is as long as the slower kind."""
    costs = Fixed(forward=0, backward=0, gather=10, reduce=30)
    assert step("fsdp2", 5, costs, Lanes.STREAMS) < step("fsdp2", 5, costs)


def test_no_overlap_is_the_sum() -> None:
    """Where each collective stops computation, a step is the sum of all its parts."""
    costs = Fixed(1, 2, 4, 8, 0, 16)
    assert step("fsdp2", 3, costs, Lanes.NOTHING) == 3 * (1 + 2 + 2 * 4 + 8) + 16
    assert step("ddp", 3, costs, Lanes.NOTHING) == 3 * (1 + 2) + 1 * 8 + 16  # one bucket


def test_at_most_two_gathers_are_in_flight_in_forward() -> None:
    """A gather waits for the copy-out two before it: with slow computation two results lie ready, never three."""
    placed = simulate(step_events("fsdp2-noreshard", blocks(4), 8), Fixed(forward=100, gather=1), Lanes.COMMUNICATOR)
    gathers = [when(placed, "all-gather", f"block {i}").start_ms for i in range(4)]
    assert gathers == [0, 1, 2, 101]  # block 1 is copied out, and makes room, when block 0 has computed


def test_a_reduce_scatter_takes_its_input_when_the_one_before_is_done() -> None:
    """The copy into a unit's input waits for the previous unit's reduce-scatter."""
    placed = simulate(step_events("fsdp2", blocks(3), 8), Fixed(reduce=50, copy=1), Lanes.STREAMS)
    assert when(placed, "copy-in", "block 1").start_ms == when(placed, "reduce-scatter", "block 2").end_ms


def test_the_optimizer_waits_for_every_reduction() -> None:
    """It begins when the last collective has ended."""
    for arm in ("ddp", "fsdp2"):
        placed = simulate(step_events(arm, blocks(3), 8), Fixed(reduce=50, optimizer=1), Lanes.COMMUNICATOR)
        ends = [p.end_ms for p in placed if p.task.kind in ("reduce-scatter", "all-reduce")]
        assert when(placed, "optimizer", "").start_ms == max(ends)


def test_buckets_are_reduced_while_backward_goes_on() -> None:
    """DDP's buckets overlap with the blocks before them; what follows the last gradient is exposed."""
    model = blocks(4, rows=25 * 256)  # 25 MiB of gradients a block: a bucket each
    placed = simulate(step_events("ddp", model, 8), Fixed(1, 2, reduce=1), Lanes.COMMUNICATOR)
    assert [p.start_ms for p in placed if p.task.kind == "all-reduce"] == [6, 8, 10, 12]
    assert timeline("ddp", placed).exposed_ms == 1


def test_replicas_are_reduced_after_their_shards() -> None:
    """On a mesh of two dimensions a unit's all-reduce begins when its reduce-scatter has ended, beside gathers."""
    placed = simulate(hybrid_events(blocks(3), 4), Fixed(reduce=10), Lanes.COMMUNICATOR)
    for i in range(3):
        own = when(placed, "reduce-scatter", f"block {i}").end_ms
        assert when(placed, "all-reduce", f"block {i}").start_ms >= own
    assert when(placed, "all-reduce", "block 2").start_ms == when(placed, "reduce-scatter", "block 2").end_ms


times = st.integers(0, 400).map(lambda eighths: eighths / 8)
costs_of_any_kind = st.builds(Fixed, times, times, times, times, times, times)


@settings(max_examples=50)
@given(st.sampled_from(ARMS), st.integers(1, 5), costs_of_any_kind)
def test_more_lanes_never_make_a_step_longer(arm: str, count: int, costs: Fixed) -> None:
    """Own streams are at least as fast as one communicator, and that as no overlap."""
    streams, communicator, nothing = (step(arm, count, costs, lanes) for lanes in Lanes)
    assert streams <= communicator <= nothing


@settings(max_examples=50)
@given(st.integers(1, 5), costs_of_any_kind, st.sampled_from(Lanes))
def test_keeping_parameters_never_makes_a_step_longer(count: int, costs: Fixed, lanes: Lanes) -> None:
    """No reshard is at least as fast, by no more than the gathers and copies that it saves."""
    freed, kept = (step(arm, count, costs, lanes) for arm in ("fsdp2", "fsdp2-noreshard"))
    assert kept <= freed <= kept + count * (costs.gather + costs.copy)


@settings(max_examples=50)
@given(st.sampled_from(ARMS), st.integers(1, 5), costs_of_any_kind)
def test_exposed_communication_is_what_computation_lacks(arm: str, count: int, costs: Fixed) -> None:
    """A step is its computation, its copies and the communication with nothing under it: nothing else takes time."""
    placed = simulate(step_events(arm, blocks(count), 8), costs, Lanes.COMMUNICATOR)
    computed = sum(p.task.ms for p in placed if p.task.lane == "compute")
    assert timeline(arm, placed).exposed_ms == pytest.approx(step_ms(placed) - computed, abs=1e-9)


def test_an_order_is_drawn_with_a_millisecond_for_each() -> None:
    """The order's timeline: forward exposes the first gather alone, and each block's reshard is a tick after it."""
    drawn = order_timeline("fsdp2", step_events("fsdp2", blocks(3), 8))
    forward = [(s.kind, s.unit, s.start_ms, s.end_ms) for s in drawn.spans][:6]
    assert drawn.source == "order"
    assert forward[:3] == [("all-gather", "block 0", 0, 1), ("forward", "block 0", 1, 2), ("reshard", "block 0", 2, 2)]


def test_a_deeper_model_repeats_its_block() -> None:
    """Two blocks made four are the model of four, its gradients' order too."""
    assert deepened(blocks(2), 4) == blocks(4)


def test_only_two_like_blocks_are_made_deeper() -> None:
    """A model of another depth is refused with its depth."""
    with pytest.raises(ValueError, match="not one of 3"):
        deepened(blocks(3), 4)


def test_an_arm_without_choreography_is_named() -> None:
    """A strategy that the simulation does not know is refused, with those that it knows."""
    with pytest.raises(UsageError, match="'fsdp1': it has single, ddp, fsdp2, fsdp2-noreshard"):
        step_events("fsdp1", blocks(1), 8)
