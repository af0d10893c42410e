"""What a failed job says beyond what every kind of fault in the catalogue (test_ranks_faults.py) must say."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from correctness_tests.suite import rank_jobs
from fixtures.platforms import Platform
from fixtures.ranks import AllRanksSkippedError, FailureKind, RankFailure, RankPool, RankPools, RanksFailedError

pytestmark = pytest.mark.cpu

Ranks = Callable[[int], RankPool]


@pytest.fixture(autouse=True)
def next_job_runs(rank_pools: RankPools) -> Iterator[None]:
    """After each test here, the next job of the same world size runs: one failure never poisons what follows."""
    yield
    assert rank_pools.get(Platform.cpu(2)).run(rank_jobs.all_reduce) == [3.0, 3.0]


def fail(pool: RankPool, job: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[RankFailure, str]:
    """Run a job that must fail: its cause, and the message, checked for what every message has."""
    with pytest.raises(RanksFailedError) as info:
        pool.run(job, *args, **kwargs)
    message = str(info.value)
    cause = info.value.failures[0]
    assert message.startswith(f"rank {cause.rank} of 2 {cause.what}, ")
    assert f" s after correctness_tests.suite.rank_jobs:{job.__name__} began on cpu-gloo-2." in message
    assert re.search(
        r"^run this test alone: (TORCH_DISTRIBUTED_DEBUG=DETAIL )?pytest \S*test_ranks_failures\.py::\w+",
        message.splitlines()[-1],
    )
    assert not pool.healthy
    return cause, message


def test_exception_while_the_other_waits(ranks: Ranks) -> None:
    """A rank that raises is the headline, with its traceback and output; the one that waits for it is shown waiting."""
    cause, message = fail(ranks(2), rank_jobs.raise_before_collective, 1)
    assert (cause.rank, cause.kind, cause.what) == (1, FailureKind.EXCEPTION, "raised ValueError: planted: bad shard")
    assert 'raise ValueError("planted: bad shard")' in cause.traceback
    assert "fixtures/ranks" not in cause.traceback
    assert re.search(
        r"^rank 0 was alive in all_reduce \(torch/.*\), called by raise_before_collective \(.*rank_jobs\.py:\d+\)$",
        message,
        re.MULTILINE,
    )
    assert "stack of rank 0, innermost first:" in message
    assert "end of the output of rank 1:\n  last words on stdout" in message


def test_first_of_several_exceptions(ranks: Ranks) -> None:
    """When every rank raises, the first in time is the headline and the others follow."""
    cause, message = fail(ranks(2), rank_jobs.raise_on_every_rank)
    assert cause.what == "raised ValueError: planted on 1"
    assert "rank 0 raised ValueError: planted on 0, after" in message


def test_stopped_rank_is_blamed_under_the_memory_meter(ranks: Ranks) -> None:
    """A meter that waits for a collective in the program's place hides neither the victim nor who is to blame."""
    cause, message = fail(ranks(2), rank_jobs.stop_under_the_memory_meter, 1, deadline_s=1.0)
    assert cause.rank == 1
    assert "did not answer the request for its stack" in cause.what
    assert re.search(
        r"^rank 0 missed the deadline .* in all_reduce .*, called by stop_under_the", message, re.MULTILINE
    )
    assert re.search(r"^  finish \(fixtures/meters/lending\.py:\d+\)$", message, re.MULTILINE)


def test_lone_skip_fails(ranks: Ranks) -> None:
    """A rank that skips while another runs is a failure that names it and its reason."""
    cause, message = fail(ranks(2), rank_jobs.skip, [0])
    assert (cause.rank, cause.kind, cause.what) == (0, FailureKind.SKIPPED, "skipped alone (no such device)")
    assert re.search(r"^rank 1 finished after", message, re.MULTILINE)


def test_skip_of_all_ranks_is_a_skip(ranks: Ranks) -> None:
    """When every rank skips, so does the job, with the ranks' reason, and the pool goes on."""
    pool = ranks(2)
    with pytest.raises(AllRanksSkippedError) as info:
        pool.run(rank_jobs.skip, [0, 1])
    assert info.value.reason == "no such device"
    with pytest.raises(AllRanksSkippedError, match=r"asked for by pytest\.skip"):
        pool.run(rank_jobs.skip_with_pytest)
    assert pool.healthy


def test_death_between_jobs_replaces_the_pool(ranks: Ranks) -> None:
    """A rank that dies while idle makes its pool unhealthy, and the next job runs on another."""
    pool = ranks(2)
    os.kill(pool.pids[1], signal.SIGKILL)
    until = time.monotonic() + 30
    while pool.healthy and time.monotonic() < until:  # until the fork server has reaped it and said so
        time.sleep(0.01)
    assert not pool.healthy, "the rank is dead, and 30 s later its pool does not know"
    assert ranks(2) is not pool
