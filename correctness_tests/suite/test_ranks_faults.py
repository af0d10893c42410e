"""Every kind of fault in the catalogue is reported as it must be, at once, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from correctness_tests.suite.rank_faults.catalogue import FAULTS, LEFT_RUNNING, LeftRunning, RankFault
from correctness_tests.suite.rank_faults.trial import try_fault, try_left_running
from fixtures.ranks import RankPools

pytestmark = pytest.mark.cpu

SMALL_ENOUGH = {"result of 500 MB": 70 * 10**6, "exception of 10 MB": 10**6}
"""The same faults smaller, for every pull request; the command tries them at full size."""


@pytest.fixture(autouse=True)
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ranks get less time to report after the first failure; what must be said does not depend on it."""
    monkeypatch.setattr("fixtures.ranks.watch.GRACE_S", 0.3)
    monkeypatch.setattr("fixtures.ranks.watch.SKIP_GRACE_S", 0.3)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault_is_reported_and_leaves_nothing(fault: RankFault, rank_pools: RankPools) -> None:
    """The first rank to fail is the headline with its cause and evidence, every other rank's state is told, the stacks
    of the living are shown, the next job runs, and no process, file, descriptor or shared memory is left."""
    trial = try_fault(replace(fault, at_size=SMALL_ENOUGH.get(fault.name, fault.at_size)), rank_pools)
    assert trial.wrong == [], trial.message
    assert trial.left_behind == []


@pytest.mark.parametrize("fault", LEFT_RUNNING, ids=str)
def test_what_a_job_leaves_running_ends_with_its_ranks(fault: LeftRunning, rank_pools: RankPools) -> None:
    """A job that leaves a process or a thread running passes; the next test gets other ranks, and nothing is left."""
    trial = try_left_running(fault, rank_pools)
    assert trial.wrong == []
    assert trial.left_behind == []
