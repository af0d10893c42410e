"""However a rank fails, the job fails in seconds, the first failure is the headline and the next job runs."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
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


def test_exception_inside_a_collective(ranks: Ranks) -> None:
    """Collectives that do not fit together fail, whether gloo raises or dies of it; both ranks are accounted for."""
    _, message = fail(ranks(2), rank_jobs.mismatched_collective, deadline_s=2.0)
    assert "rank 0" in message
    assert "rank 1" in message


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signal_outranks_the_lost_connection(ranks: Ranks, number: signal.Signals) -> None:
    """A killed rank is the headline, with the signal's name, and what its peer raised is marked as a consequence."""
    cause, message = fail(ranks(2), rank_jobs.send_signal, 1, int(number))
    assert (cause.rank, cause.kind, cause.what) == (1, FailureKind.SIGNAL, f"was killed by {number.name}")
    assert re.search(r"^rank 0 raised .*a consequence: it lost its peer", message, re.MULTILINE)


def test_segmentation_fault_shows_its_place(ranks: Ranks) -> None:
    """A rank that dies in C leaves the Python stack of its death in the message."""
    cause, message = fail(ranks(2), rank_jobs.segfault, 0)
    assert (cause.rank, cause.kind, cause.what) == (0, FailureKind.SIGNAL, "was killed by SIGSEGV")
    assert re.search(r"end of the output of rank 0:\n  Fatal Python error: Segmentation fault", message)
    assert "in segfault" in message


@pytest.mark.parametrize("status", [0, 3])
def test_exit_without_a_result(ranks: Ranks, status: int) -> None:
    """A rank that exits before it has finished has failed, whatever its status."""
    cause, message = fail(ranks(2), rank_jobs.exit_silently, 1, status)
    assert (cause.rank, cause.kind) == (1, FailureKind.EXIT)
    assert cause.what == f"exited with status {status} without finishing"
    assert re.search(r"^rank 0 finished after", message, re.MULTILINE)


def test_deadline_blames_the_rank_outside_the_collective(ranks: Ranks) -> None:
    """When ranks hang, the one that does not wait for its peers is the headline; each is shown where it is."""
    cause, message = fail(ranks(2), rank_jobs.hang, 1, deadline_s=0.7)
    assert (cause.rank, cause.kind) == (1, FailureKind.DEADLINE)
    assert cause.what.startswith("missed the deadline of 0.7 s without progress, in hang (")
    assert re.search(r"^rank 0 missed the deadline .* in all_reduce ", message, re.MULTILINE)
    assert "stack of rank 1, innermost first:\n  hang (" in message


def test_stack_of_a_rank_that_holds_the_interpreter(ranks: Ranks) -> None:
    """A rank stuck in C with the interpreter's lock still shows where, and is killed."""
    cause, _ = fail(ranks(2), rank_jobs.hang_in_c, 0, deadline_s=0.7)
    assert cause.rank == 0
    assert "in hang_in_c (" in cause.what


def test_stopped_rank_is_said_to_be_silent(ranks: Ranks) -> None:
    """A rank that can't show its stack is said to have been asked; it is blamed before one that can, and is killed."""
    cause, _ = fail(ranks(2), rank_jobs.stop_itself, 1, deadline_s=0.5)
    assert cause.rank == 1
    assert "did not answer the request for its stack" in cause.what


def test_stopped_rank_is_blamed_under_the_memory_meter(ranks: Ranks) -> None:
    """A meter that waits for a collective in the program's place hides neither the victim nor who is to blame."""
    cause, message = fail(ranks(2), rank_jobs.stop_under_the_memory_meter, 1, deadline_s=1.0)
    assert cause.rank == 1
    assert "did not answer the request for its stack" in cause.what
    assert re.search(
        r"^rank 0 missed the deadline .* in all_reduce .*, called by stop_under_the", message, re.MULTILINE
    )
    assert re.search(r"^  finish \(fixtures/meters/lending\.py:\d+\)$", message, re.MULTILINE)


def test_result_that_cannot_be_pickled(ranks: Ranks) -> None:
    """A result that can't be sent is the failure of the rank that returned it."""
    cause, message = fail(ranks(2), rank_jobs.return_unpicklable)
    assert cause.rank == 1
    assert "the function's result, of type function, can't be pickled" in message


def test_lone_skip_fails(ranks: Ranks) -> None:
    """A rank that skips while another runs is a failure that names it and its reason."""
    cause, message = fail(ranks(2), rank_jobs.skip, [0])
    assert (cause.rank, cause.kind, cause.what) == (0, FailureKind.SKIPPED, "skipped alone (no such device)")
    assert re.search(r"^rank 1 finished after", message, re.MULTILINE)


def test_lone_skip_does_not_wait_for_the_deadline(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that wait in a collective for one that skipped are given up long before the deadline."""
    monkeypatch.setattr("fixtures.ranks.watch.SKIP_GRACE_S", 0.3)
    cause, message = fail(ranks(2), rank_jobs.skip_while_others_wait, 1, deadline_s=rank_jobs.FOREVER_S)
    assert (cause.rank, cause.kind) == (1, FailureKind.SKIPPED)
    assert re.search(r"^rank 0 was alive in all_reduce", message, re.MULTILINE)


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
    while psutil.pid_exists(pool.pids[1]):  # until the fork server has reaped it
        time.sleep(0.01)
    assert not pool.healthy
    assert ranks(2) is not pool
