"""A pool runs a function on every rank and hands back every rank's result."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest
import torch

from correctness_tests.suite import rank_jobs
from fixtures.errors import UsageError
from fixtures.platforms import Platform
from fixtures.ranks import RankPool, RankPools, current

pytestmark = pytest.mark.cpu

Ranks = Callable[[int], RankPool]


def test_results_come_in_rank_order(ranks: Ranks) -> None:
    """Every rank's result comes back, in rank order, and ``current()`` on a rank says who it is."""
    assert ranks(2).run(rank_jobs.who_am_i) == [(0, 2, "cpu-gloo-2"), (1, 2, "cpu-gloo-2")]


def test_ranks_reach_each_other(ranks: Ranks) -> None:
    """The process group is open inside a job."""
    assert ranks(2).run(rank_jobs.all_reduce, 10.0) == [21.0, 21.0]


def test_tensors_travel_both_ways(ranks: Ranks) -> None:
    """Arguments and results may be tensors, which travel as bytes."""
    results = ranks(2).run(rank_jobs.scaled, torch.arange(3), factor=2)
    assert [result["scaled"].tolist() for result in results] == [[0, 2, 4], [0, 4, 8]]


def test_pool_is_reused(ranks: Ranks) -> None:
    """Two jobs of one world size run on the same processes."""
    first = ranks(2).pids
    assert ranks(2).run(rank_jobs.surroundings)[1]["pid"] == first[1]
    assert ranks(2).pids == first


def test_ranks_take_on_the_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A fresh rank has pytest's directory and environment, one thread, and a process group of its own."""
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setenv("SHARDGATE_TEST_VARIABLE", "seen")
    with RankPool(Platform.cpu(1)) as pool:
        (seen,) = pool.run(rank_jobs.surroundings)
    assert seen == {
        "pid": pool.pids[0],
        "group": seen["pid"],
        "threads": 1,
        "omp": "1",
        "directory": os.path.realpath(str(tmp_path)),
        "variable": "seen",
    }


def test_fresh_ranks_import_nothing_for_fully_shard() -> None:
    """The first FSDP2 step of a fresh rank finds everything imported: that is what the preload is for."""
    with RankPool(Platform.cpu(2)) as pool:
        assert pool.run(rank_jobs.fully_shard_imports) == [0, 0]


def test_idle_ranks_rest() -> None:
    """Between two tests the ranks of a pool are stopped, since gloo never sleeps; the next job wakes the same ones."""
    with RankPools() as pools:
        pool = pools.get(Platform.cpu(2))
        for _ in range(2):
            assert pool.run(rank_jobs.all_reduce) == [3.0, 3.0]
            pools.rest()
            pools.rest()
            assert [wait_for(pid, psutil.STATUS_STOPPED) for pid in pool.pids] == [psutil.STATUS_STOPPED] * 2
            assert pools.get(Platform.cpu(2)) is pool


def test_resting_ranks_can_die() -> None:
    """A rank that is killed while it rests is seen: its pool is not healthy and can be closed."""
    with RankPool(Platform.cpu(2)) as pool:
        pool.rest()
        os.kill(pool.pids[1], signal.SIGKILL)
        until = time.monotonic() + 20
        while pool.healthy and time.monotonic() < until:
            time.sleep(0.01)
        assert not pool.healthy


def wait_for(pid: int, status: str) -> str:
    """The process's status once it is the one wanted, or after a fair wait."""
    until = time.monotonic() + 20
    while (found := psutil.Process(pid).status()) != status and time.monotonic() < until:
        time.sleep(0.01)
    return str(found)


def test_progress_resets_the_deadline(ranks: Ranks) -> None:
    """A job may take longer than its deadline as long as some rank reports progress, which pytest hears."""
    heard: list[tuple[int, str]] = []
    results = ranks(2).run(
        rank_jobs.progress_often, 3, 0.5, deadline_s=1.2, on_progress=lambda *report: heard.append(report)
    )
    assert results == ["done", "done"]
    assert heard == [(0, "step 0"), (0, "step 1"), (0, "step 2")]


def test_rank_patch_comes_before_the_first_job() -> None:
    """A rank patch has been called on every rank when the first job runs."""
    with RankPool(Platform.cpu(2), rank_patch="correctness_tests.suite.rank_jobs:mark_patched") as pool:
        assert pool.run(rank_jobs.read_patch) == [f"before the first job on {rank}" for rank in range(2)]


@pytest.mark.parametrize("patch", ["no_such_module:f", "no_colon", "correctness_tests.suite.rank_jobs:broken_patch"])
def test_bad_rank_patch_is_named(patch: str) -> None:
    """A patch that can't be applied is a usage error that names it."""
    with pytest.raises(UsageError, match=f"rank patch '{patch}'"):
        RankPool(Platform.cpu(2), rank_patch=patch)


def test_usage_error_on_a_rank_is_one_here(ranks: Ranks) -> None:
    """A rank's UsageError reaches the user as itself, not as a crash of a rank."""
    with pytest.raises(UsageError, match=r"^no workload called 'gtp2'"):
        ranks(2).run(rank_jobs.raise_usage_error)


def test_function_must_be_importable(ranks: Ranks) -> None:
    """A function that ranks could not import by name is refused before anything is sent, and the pool stays."""
    pool = ranks(2)
    with pytest.raises(UsageError, match="top level of a module"):
        pool.run(lambda: 1)
    assert pool.healthy


def test_pool_that_lost_its_group_is_replaced() -> None:
    """A job that destroys the process group takes its pool along; the next job gets another."""
    with RankPools() as pools:
        pools.get(Platform.cpu(2)).run(rank_jobs.leave_the_group)
        assert pools.get(Platform.cpu(2)).run(rank_jobs.all_reduce) == [3.0, 3.0]


def test_current_is_for_ranks() -> None:
    """Outside a rank there is no current one."""
    with pytest.raises(RuntimeError, match=r"RankPool\.run"):
        current()
