"""Property: a step's log puts computation, gathers, reshards and reductions down to the unit whose they are."""

from __future__ import annotations

import pytest

from fixtures.meters.step_log import StepLog
from fixtures.timelines import Event

pytestmark = pytest.mark.cpu

BF16, FP32 = "bfloat16", "float32"


def told(log: StepLog) -> list[str]:
    """Kind and unit of each event."""
    return [f"{event.kind} {event.unit}".rstrip() for event in log.events()]


def inside(log: StepLog, unit: str, kind: str) -> None:
    """Between the edges of a block."""
    log.unit, log.kind = unit, kind


def test_what_precedes_every_block_is_the_roots() -> None:
    """A step begins in forward, with computation of the root's."""
    log = StepLog()
    log.computed(8)
    assert log.events() == (Event(kind="forward", unit="root", flops=8, share=1.0),)


def test_a_piece_has_its_share_of_the_units_flops() -> None:
    """A unit's computation that a gather cuts in two is two pieces with their FLOPs, whose shares add up to one."""
    log = StepLog()
    inside(log, "block 0", "forward")
    log.computed(2)
    log.computed(4)
    log.collective("all-gather", BF16, 64, [])
    log.computed(18)
    pieces = [event for event in log.events() if event.kind == "forward"]
    assert [(piece.flops, piece.share) for piece in pieces] == [(6, 0.25), (18, 0.75)]


def test_without_flops_a_share_is_of_operators() -> None:
    """A block of nothing but element-wise operators is shared out by their number."""
    log = StepLog()
    inside(log, "block 0", "backward")
    log.computed(0)
    log.collective("all-reduce", FP32, 64, [])
    for _ in range(3):
        log.computed(0)
    assert [event.share for event in log.events() if event.kind == "backward"] == [0.25, 0.75]


def test_forward_and_backward_are_shared_out_apart() -> None:
    """A block's two computations are two wholes, and another block's a third."""
    log = StepLog()
    for unit, kind, flops in (("block 0", "forward", 1), ("block 1", "forward", 2), ("block 0", "backward", 4)):
        inside(log, unit, kind)
        log.computed(flops)
    assert [(event.flops, event.share) for event in log.events()] == [(1, 1.0), (2, 1.0), (4, 1.0)]


def test_the_optimizers_work_is_no_units() -> None:
    """Whatever it computes is one event, whosever parameters it steps."""
    log = StepLog()
    log.phase = "optimizer"
    log.computed(3)
    log.computed(5)
    assert log.events() == (Event(kind="optimizer", flops=8, share=1.0),)


def test_the_strategys_own_work_is_nobodys() -> None:
    """Between its hooks, and once the step is over, nothing is computation."""
    log = StepLog()
    log.unit = None
    log.computed(8)
    log.unit, log.phase = "root", ""
    log.computed(8)
    assert log.events() == ()


def test_a_gather_is_the_units_whose_shard_was_read_last() -> None:
    """A gather before any shard was read, of what is in no unit, is nobody's."""
    log = StepLog()
    log.collective("all-gather", BF16, 8, [])
    log.shard = "block 1"
    log.collective("all-gather", BF16, 64, [])
    assert log.events() == (
        Event(kind="all-gather", unit="", dtype=BF16, bytes=8),
        Event(kind="all-gather", unit="block 1", dtype=BF16, bytes=64),
    )


def test_memory_of_a_unit_comes_and_goes_at_once() -> None:
    """The parameters of a unit are resized one by one, which is one event; the next unit's are another."""
    log = StepLog()
    for kind, unit in (("copy-out", "block 0"), ("copy-out", "block 0"), ("copy-out", "root"), ("reshard", "root")):
        log.storage(kind, unit)  # type: ignore[arg-type]
    assert told(log) == ["copy-out block 0", "copy-out root", "reshard root"]


def after(kind: str, unit: str, direction: str) -> list[str]:
    """What is told when block 0 computes in a direction, then memory comes or goes, then it computes again."""
    log = StepLog()
    inside(log, "block 0", direction)
    log.computed(1)
    log.storage(kind, unit)  # type: ignore[arg-type]
    log.computed(1)
    return told(log)


def test_a_block_that_is_freed_in_backward_has_computed() -> None:
    """What follows its own reshard there is the copying of its gradients, and no computation."""
    assert after("reshard", "block 0", "backward") == ["backward block 0", "reshard block 0"]


def test_a_block_that_is_freed_in_forward_goes_on() -> None:
    """In forward its own reshard is after its last operator; whatever follows is still told."""
    assert after("reshard", "block 0", "forward") == ["forward block 0", "reshard block 0", "forward block 0"]


def test_another_blocks_reshard_interrupts_no_backward() -> None:
    """Only the unit that computes is done when it is freed."""
    assert after("reshard", "block 1", "backward") == ["backward block 0", "reshard block 1", "backward block 0"]


def test_a_gather_interrupts_no_backward() -> None:
    """Memory that comes for the block that computes ends nothing."""
    assert after("copy-out", "block 0", "backward") == ["backward block 0", "copy-out block 0", "backward block 0"]


def test_the_root_that_is_freed_in_backward_has_computed() -> None:
    """Between blocks the direction is the phase's, and the rule is the same."""
    log = StepLog()
    log.phase = "backward"
    log.storage("reshard", "root")
    log.computed(1)
    assert told(log) == ["reshard root"]


def test_a_reduction_is_of_the_units_whose_gradients_it_held() -> None:
    """After backward each gradient's memory says whose it is: a bucket of several names them, last one first."""
    log, memory = StepLog(), [object() for _ in range(4)]
    log.collective("all-reduce", FP32, 16, [memory[2], memory[1]])
    log.collective("all-gather", BF16, 8, [memory[0]])
    log.collective("reduce-scatter", FP32, 32, [memory[0], memory[3]])
    log.settle([(id(memory[0]), "root"), (id(memory[1]), "block 0"), (id(memory[2]), "block 1")])
    assert told(log) == ["all-reduce block 1 + block 0", "all-gather", "reduce-scatter root"]


def test_a_reduction_after_backward_is_nobodys() -> None:
    """The gradients' norm is reduced when all of them are settled: it has no unit, and takes none away."""
    log, gradient = StepLog(), object()
    log.collective("reduce-scatter", FP32, 32, [gradient])
    log.settle([(id(gradient), "block 0")])
    log.collective("all-reduce", FP32, 4, [object()])
    assert told(log) == ["reduce-scatter block 0", "all-reduce"]
