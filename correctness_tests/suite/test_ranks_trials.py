"""The trials of the fault catalogue can fail: what they are to find is planted, and found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from correctness_tests.suite.rank_faults import trial
from correctness_tests.suite.rank_faults.catalogue import FAULTS, LEFT_RUNNING
from correctness_tests.suite.rank_faults.trial import TWO, Belongings, try_fault, try_left_running
from fixtures.ranks import RankFailure, RankPools, failures, pool
from fixtures.ranks.processes import MARK

pytestmark = pytest.mark.cpu

KILLED = next(fault for fault in FAULTS if fault.name == "SIGKILL")


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left behind here is left on purpose."""
    monkeypatch.setattr(trial, "FAIR_WAIT_S", 0.1)


def test_wrong_headline_is_found(rank_pools: RankPools, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that puts the victim first, with all else right, is wrong."""

    def victim_first(found: Iterable[RankFailure]) -> tuple[RankFailure, ...]:
        return tuple(sorted(found, key=lambda failure: failure.rank))

    monkeypatch.setattr(failures, "order_failures", victim_first)
    found = try_fault(KILLED, rank_pools)
    assert "missing: the headline is of rank 1" in found.wrong


def test_folder_left_behind_is_found(rank_pools: RankPools, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that does not remove its folder has left it."""
    monkeypatch.setattr(pool, "shutil", SimpleNamespace(rmtree=lambda *args, **kwargs: None))
    found = try_fault(KILLED, rank_pools)
    assert found.wrong == []
    assert [thing.partition(" ")[0] for thing in found.left_behind] == ["folder"]


def test_process_and_descriptor_left_behind_are_found(rank_pools: RankPools) -> None:
    """A process that carries the mark of the ranks, and a file that pytest has opened meanwhile, are left."""
    healthy = rank_pools.get(TWO)
    belongings = Belongings(healthy)
    environment = {**os.environ, MARK: belongings.mark}
    with subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True) as process, open(os.devnull):
        healthy.close()
        assert belongings.left() == [f"process {process.pid}", "1 file descriptors"]
        process.kill()


def test_what_is_not_noticed_is_found(rank_pools: RankPools, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that hands on ranks with something running on them is wrong."""
    monkeypatch.setattr(pool.RankPool, "clean", pool.RankPool.healthy)
    assert "nobody noticed that something was left running" in try_left_running(LEFT_RUNNING[0], rank_pools).wrong
