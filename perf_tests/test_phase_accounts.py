"""Property: at rest, at the peak and at the end of each phase, a rank holds exactly the bytes that the ledger names.

One process plays each rank of N, on torch's fake group, so that every buffer of every rank is seen.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures import ledger
from fixtures.ledger import Precision
from fixtures.ranks.pool import RankPool
from perf_tests.budgets import ARMS
from perf_tests.phase_arms import SIZES, WORLD_SIZES, PhaseArm, played, units_of

pytestmark = pytest.mark.cpu

N = 8
"""Of the pool; it plays ranks of smaller worlds too."""


ALL = tuple(range(N))

CASES = [(size, world_size) for size in SIZES for world_size in WORLD_SIZES if (size, world_size) != ("ended", 2)]
"""The one left out is read on real ranks: test_phase_accounts_on_ranks.py."""


def extreme_ranks(strategy: str, size: str, world_size: int, precision: Precision) -> tuple[int, ...]:
    """The ranks with the most and the least to hold; one of them where all hold the same."""

    def buffers(rank: int) -> dict[str, int]:
        return ledger.resident_buffers(strategy, units_of(size), world_size, rank, precision)

    most, least = ledger.largest_rank(buffers, world_size), ledger.smallest_rank(buffers, world_size)
    return (most,) if buffers(most) == buffers(least) else (most, least)


def check(
    pool: RankPool, strategy: str, size: str, precision: Precision, world_size: int, ranks: tuple[int, ...]
) -> None:
    """Every phase of these ranks."""
    readings = played(pool, strategy, size, precision, world_size, ranks)
    for rank, reading in zip(ranks, readings, strict=True):
        PhaseArm(strategy, size, precision, world_size, rank, f"cpu-solo-{world_size}").check(reading, lambda: pool)


@pytest.mark.parametrize("strategy", ARMS)
@pytest.mark.parametrize(("size", "world_size"), CASES)
def test_every_phase_is_the_ledgers(solo: Callable[[int], RankPool], size: str, world_size: int, strategy: str) -> None:
    """All seven phases are exact on the largest and the smallest rank, and of the odd size's on each of eight."""
    ranks = extreme_ranks(strategy, size, world_size, "mixed")
    check(solo(N), strategy, size, "mixed", world_size, ALL if (size, world_size) == ("odd", N) else ranks)


@pytest.mark.parametrize("strategy", ["single", *ARMS])
@pytest.mark.parametrize("size", ["odd", "ended"])
def test_every_phase_without_bfloat16(solo: Callable[[int], RankPool], size: str, strategy: str) -> None:
    """With no policy and no autocast too, where nothing is cast on the way to a gather or a reduction."""
    check(solo(N), strategy, size, "fp32", 4, extreme_ranks(strategy, size, 4, "fp32"))


@pytest.mark.parametrize("strategy", ARMS)
def test_live_bytes_after_every_step_are_the_ledgers(solo: Callable[[int], RankPool], strategy: str) -> None:
    """After each step what is resident is alive, and nothing else: a leak shows here, even one that lowers a peak."""
    for rank, reading in enumerate(played(solo(N), strategy, "odd", "mixed", N, ALL)):
        known = ledger.resident_buffers(strategy, units_of("odd"), N, rank) | {"batch": reading.held_bytes}
        grown = [live - sum(known.values()) for live in reading.live_bytes]
        assert not any(grown), (
            f"live bytes, {strategy} of odd in mixed, rank {rank} of cpu-solo-8: measured {reading.live_bytes} after "
            f"each step, the ledger says {ledger.explain(known)}, differences {grown}. Growing: something of each step "
            "is kept (a hook, a list, a gathered unit). The same after each: something outlives its first use. Run "
            "test_every_phase_is_the_ledgers, whose message names the buffer."
        )
