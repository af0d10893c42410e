"""Property: a census accounts for every byte that the meter counts, and names who took it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch

from fixtures.ledger import Moment
from fixtures.meters.census import OTHERS, Birth, Census
from fixtures.meters.memory import CpuMemoryMeter
from fixtures.ranks.pool import RankPool
from perf_tests.phase_arms import PhaseArm, compared, played, take_census

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("strategy", ["ddp", "fsdp1", "fsdp2"])
def test_a_census_is_the_meters_peak_and_the_ledgers_buffers(solo: Callable[[int], RankPool], strategy: str) -> None:
    """At each phase's peak the census adds up to what the meter read, and differs from the ledger in no buffer."""
    (reading,) = played(solo(8), strategy, "even", "mixed", 4, (0,))
    moments = PhaseArm(strategy, "even", "mixed", 4, 0, "cpu-solo-4").moments(reading)
    peaks = solo(8).run(take_census, strategy, "even", "mixed", 4, 0)[0]
    for phase, peak in peaks.items():
        assert sum(peak.values()) == reading.phase_bytes[phase]
        assert compared(peak, moments[phase]) == []


def test_the_fullest_moment_is_kept_and_not_the_last() -> None:
    """Of two tensors that never lived together, a stretch's census has the larger; the next stretch starts afresh."""
    meter = CpuMemoryMeter(census := Census())
    with meter.watch():
        meter.start()
        torch.zeros(64)
        torch.ones(16)
        meter.mark("first")
        kept = torch.ones(8)
        meter.mark("second")
        meter.stop()
    first, second = census.fullest[-2:]
    assert [(birth.operator, size) for birth, size in first.items() if size] == [("aten.zeros.default", 256)]
    assert sum(second.values()) == kept.untyped_storage().nbytes()


def test_a_birth_says_who_and_where() -> None:
    """A line of a census names buffer, unit, operator and caller."""
    birth = Birth("reduce-scatter inputs", "aten.empty.memory_format", "_fsdp_collectives.allocate", "blocks.1")
    assert str(birth) == "reduce-scatter inputs of blocks.1 (aten.empty.memory_format in _fsdp_collectives.allocate)"


def test_a_buffer_that_differs_is_a_line_with_its_makers() -> None:
    """Buffers that agree are left out; whatever no function took is compared as a whole."""
    peak = Counter({Birth("gathered units", "resize_", "_fsdp_param.alloc_storage", "1"): 96})
    peak[Birth(OTHERS, "mm", "f", "")] = 8
    moment = Moment("forward of block 1", {"gathered units": 64, "activations": 8})
    assert compared(peak, moment) == [
        "  gathered units: measured 96, ledger 64, +32: 96 by resize_ in _fsdp_param.alloc_storage of 1"
    ]
