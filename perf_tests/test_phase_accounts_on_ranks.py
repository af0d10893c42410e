"""Property: real ranks hold what the played ones do: communication over gloo changes no byte of any phase."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures.meters.controls import check_memory
from fixtures.meters.memory import memory_meter
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from perf_tests.budgets import ARMS
from perf_tests.phase_arms import PhaseArm, communicating

pytestmark = pytest.mark.cpu

CASES = [(2, "ended"), (4, "odd")]
"""World size and size of model: a root unit with parameters, and ranks that own fewer rows, or none."""


def control() -> str:
    """The memory meter's control on this rank."""
    platform = current().platform
    return check_memory(memory_meter(platform), platform)


@pytest.mark.parametrize("world_size", [world_size for world_size, _ in CASES])
def test_the_meter_reads_a_known_allocation(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """On every rank the meter that counts these phases reads known allocations to the byte."""
    assert set(ranks(world_size).run(control)) == {"resident 262144 of 262144 bytes, peak 458752 of 458752 bytes"}


@pytest.mark.parametrize("strategy", ARMS)
@pytest.mark.parametrize(("world_size", "size"), CASES)
def test_every_phase_is_the_ledgers(
    ranks: Callable[[int], RankPool], solo: Callable[[int], RankPool], world_size: int, size: str, strategy: str
) -> None:
    """All seven phases of every rank are exact."""
    for rank, reading in enumerate(communicating(ranks(world_size), strategy, size, "mixed")):
        arm = PhaseArm(strategy, size, "mixed", world_size, rank, f"cpu-gloo-{world_size}")
        arm.check(reading, lambda: solo(8))
