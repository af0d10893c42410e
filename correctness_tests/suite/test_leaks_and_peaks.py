"""Property: live bytes catch a leak that a step's peak does not: one that makes the peak fall."""

from __future__ import annotations

import pytest

from correctness_tests.suite import faults
from fixtures.platforms import Platform
from fixtures.ranks.pool import RankPool
from perf_tests.budgets import Reading, read_played
from perf_tests.phase_arms import reference

pytestmark = pytest.mark.cpu

N = 8


def read(fault: str | None) -> Reading:
    """Rank 0 of 8 of fsdp2, with a fault or none."""
    patch = f"{faults.__name__}.{fault}:apply" if fault else None
    with RankPool(Platform.solo(N), rank_patch=patch) as pool:
        result: list[list[Reading]] = pool.run(read_played, "fsdp2", reference("even"), "mixed", N, (0,))
    return result[0][0]


def rise(reading: Reading) -> int:
    """How far backward's peak is above what was alive before the step: all that a peak of a step alone can show."""
    return reading.phase_bytes["peak_backward"] - reading.live_bytes[0]


def test_a_leak_lowers_a_peak_and_raises_live_bytes() -> None:
    """With every gathered unit kept, a step rises less than before, since it gathers into memory that it kept."""
    sound, leaking = read(None), read("kept_unsharded_parameters")
    assert rise(leaking) < rise(sound)
    assert leaking.live_bytes[-1] > 2 * sound.live_bytes[-1]


def test_a_leak_of_every_step_raises_live_bytes_step_by_step() -> None:
    """4 KiB more after each step are 4 KiB more of live bytes, to the byte."""
    first, second = read("leak_in_every_step").live_bytes
    assert second - first == 4096
