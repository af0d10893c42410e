"""Property: a message belongs to the innermost label around it that names a module, in the phase that has begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.profiler import record_function

from fixtures.meters.traffic import TrafficMeter
from fixtures.platforms import playing_rank

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    """This process plays rank 0 of 2."""
    with playing_rank(0, 2):
        yield


def send(elements: int) -> None:
    """An all-reduce of float32."""
    dist.all_reduce(torch.ones(elements))


def placed(
    step: Callable[[TrafficMeter], object], meter: TrafficMeter | None = None
) -> list[tuple[str, str, str, int]]:
    """Phase, unit, kind and bytes of each message."""
    with (meter := meter or TrafficMeter()):
        step(meter)
    return [(phase, unit, event.kind, event.bytes) for phase, unit, event in meter.placed]


def test_the_innermost_label_that_names_a_module_is_the_unit() -> None:
    """A name in parentheses at the label's end, as FSDP2 writes it; labels that name none are passed over."""

    def step(_: TrafficMeter) -> None:
        send(1)
        with record_function("FSDP::post_backward (blocks.1)"):
            with record_function("FSDP::reduce"), record_function("(not) at the end"):
                send(2)
            with record_function("FSDP::all_gather (blocks.0.mlp)"):
                send(3)
            send(4)
        send(5)

    assert [(unit, size) for _, unit, _, size in placed(step)] == [
        ("", 4),
        ("blocks.1", 8),
        ("blocks.0.mlp", 12),
        ("blocks.1", 16),
        ("", 20),
    ]


def test_a_label_that_was_there_before_names_nothing() -> None:
    """It ends while the meter watches, which saw it begin not: the next label counts as ever."""
    meter = TrafficMeter()
    early = record_function("early (blocks.3)")
    early.__enter__()  # type: ignore[no-untyped-call]

    def step(_: TrafficMeter) -> None:
        early.__exit__(None, None, None)
        with record_function("late (blocks.4)"):
            send(1)

    assert placed(step, meter) == [("forward", "blocks.4", "all-reduce", 4)]


def test_every_phase_has_its_messages() -> None:
    """Marks end forward, backward and the optimizer; what follows counts with the optimizer."""

    def step(meter: TrafficMeter) -> None:
        send(1)
        meter.mark("forward")
        send(2)
        dist.broadcast(torch.ones(3), 0)
        meter.mark("backward")
        send(4)
        meter.mark("optimizer")
        send(5)

    assert placed(step) == [
        ("forward", "", "all-reduce", 4),
        ("backward", "", "all-reduce", 8),
        ("backward", "", "broadcast", 12),
        ("optimizer", "", "all-reduce", 16),
        ("optimizer", "", "all-reduce", 20),
    ]


def test_a_second_step_forgets_the_first() -> None:
    """Its messages, its phase, and a label that it left open."""
    meter = TrafficMeter()
    left_open = record_function("left open (blocks.5)")

    def first(meter: TrafficMeter) -> None:
        left_open.__enter__()  # type: ignore[no-untyped-call]
        send(1)
        meter.mark("forward")

    assert placed(first, meter) == [("forward", "blocks.5", "all-reduce", 4)]
    assert placed(lambda _: send(2), meter) == [("forward", "", "all-reduce", 8)]
    left_open.__exit__(None, None, None)


def test_a_meter_that_never_ran_has_placed_nothing() -> None:
    """Before the first step."""
    assert TrafficMeter().placed == []


def test_a_dtensors_message_counts_once() -> None:
    """It unwraps, and its collective comes back on plain tensors: a gather of 2 x 3 float32 from 2 ranks."""
    sharded = DTensor.from_local(torch.ones(2, 3), init_device_mesh("cpu", (2,)), [Shard(0)])
    sharded.redistribute(placements=[Replicate()]).to_local()  # what is done once is over
    gather = placed(lambda _: sharded.redistribute(placements=[Replicate()]).to_local() + 0)
    assert gather == [("forward", "", "all-gather", 2 * 2 * 3 * 4)]


def test_a_step_computes_what_it_does_without_a_meter() -> None:
    """Operators are passed on with all their arguments, by keyword too: 3 float64; labels give their handle."""

    def step(_: TrafficMeter) -> None:
        with record_function("named", "with arguments") as label:
            dist.all_reduce(torch.ones(3, dtype=torch.float64))
        assert label.record is not None

    assert placed(step) == [("forward", "", "all-reduce", 24)]
