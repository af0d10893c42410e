"""The traffic meter places each message: its phase, and the unit of sharding where torch names one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from fixtures.gate.budgets import event
from fixtures.measurements import Settings
from fixtures.meters.traffic import TrafficMeter
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.training import Arm, Trainer

pytestmark = pytest.mark.cpu


def places_of(strategy: str) -> list[tuple[str, str, str]]:
    """On a rank: phase, unit and kind of each message of a steady step of the MLP of 4 blocks."""
    trainer = Trainer(Arm("mlp", strategy, Settings()), current().platform)
    trainer.step()
    trainer.step()  # after its first, DDP tells all ranks how it rebuilt its buckets
    with TrafficMeter() as meter:
        trainer.step(meter.mark)
    return [(phase, unit, found.kind) for phase, unit, found in meter.placed]


def test_units_of_fsdp2_are_named(solo: Callable[[int], RankPool]) -> None:
    """Each block is gathered forwards in order and again backwards, and reduced, by its own name."""
    places = solo(8).run(places_of, "fsdp2")[0]
    blocks = [f"blocks.{i}" for i in range(4)]
    assert [unit for phase, unit, kind in places if (phase, kind) == ("forward", "all-gather")] == blocks
    for kind in ("all-gather", "reduce-scatter"):
        assert [unit for phase, unit, k in places if (phase, k) == ("backward", kind)] == blocks[::-1]


def test_ddp_reduces_in_backward(solo: Callable[[int], RankPool]) -> None:
    """Its buckets belong to no unit."""
    assert solo(8).run(places_of, "ddp")[0] == [("backward", "", "all-reduce")]


def test_phases_begin_anew() -> None:
    """What is sent after the optimizer's mark counts with it; a second run forgets the first."""
    meter = TrafficMeter()
    with playing_rank(0, 2):
        for _ in range(2):
            with meter:
                dist.all_reduce(torch.ones(2))
                for phase in ("forward", "backward", "optimizer"):
                    meter.mark(phase)
                dist.broadcast(torch.ones(1), 0)
    assert [(phase, e.kind, e.bytes) for phase, _, e in meter.placed] == [
        ("forward", "all-reduce", 8),
        ("optimizer", "broadcast", 4),
    ]


def test_an_event_is_a_line() -> None:
    """Phase, kind, dtype, bytes, and the unit where there is one."""
    assert event("forward", "all-gather", "bfloat16", 64, "blocks.0") == "forward all-gather bfloat16 64 blocks.0"
    assert event("backward", "all-reduce", "float32", 8) == "backward all-reduce float32 8"
