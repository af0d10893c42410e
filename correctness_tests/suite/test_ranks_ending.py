"""Nothing of a pool outlives it, and nothing of any pool outlives pytest, however pytest ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from correctness_tests.suite import rank_jobs
from fixtures.platforms import Platform
from fixtures.ranks import RankPool, RanksFailedError

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).parents[2]

VICTIM = """
import os, sys
from correctness_tests.suite import rank_jobs
from fixtures.platforms import Platform
from fixtures.ranks import RankPool

pool = RankPool(Platform.cpu(2))
children = pool.run(rank_jobs.start_a_child)
if "daemons" in sys.argv:
    children += [pid for pids in pool.run(rank_jobs.start_daemons) for pid in pids]
print(pool._launcher.process.pid, *pool.pids, *children, pool._launcher.folder, flush=True)
pool.run(rank_jobs.hang_in_c, 0, deadline_s=rank_jobs.FOREVER_S)
"""
"""A program that owns a pool, says what it has started, and waits for a rank that hangs in the worst way."""


def is_running(pid: int) -> bool:
    """Whether the process does anything still; a zombie whose parent has not looked yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def survivors(pids: Iterable[int]) -> list[int]:
    """Those of the processes that still run after a fair wait; returns as soon as none does."""
    pids = list(pids)
    wait_until(lambda: not any(is_running(pid) for pid in pids))
    return [pid for pid in pids if is_running(pid)]


def wait_until(holds: Callable[[], bool]) -> bool:
    """Whether it holds after a fair wait; returns as soon as it does."""
    for _ in range(200):
        if holds():
            return True
        time.sleep(0.05)
    return holds()


class Victim:
    """The program, running: its process, the pids it has started (server, ranks, their children), its folder."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-c", VICTIM, *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until_up(self) -> tuple[list[int], Path]:
        """The pids and the folder, once the program has said them."""
        assert self.process.stdout is not None
        *pids, folder = self.process.stdout.readline().split()
        return [int(pid) for pid in pids], Path(folder)


@pytest.fixture(scope="module")
def victims() -> Iterator[list[Victim]]:
    """Two programs for two tests, started at once, since starting takes longest."""
    running = [Victim("daemons"), Victim("daemons")]
    yield running
    for victim in running:
        with victim.process as process:
            process.kill()


def test_nothing_survives_a_killed_pytest(victims: list[Victim]) -> None:
    """SIGKILL of the process that owns a pool ends the fork server, the ranks (even one that hangs in C and holds the
    interpreter), what they have started, daemons included, and the temporary folder."""
    pids, folder = victims[0].wait_until_up()
    assert len(pids) == 9
    assert all(is_running(pid) for pid in pids)
    victims[0].process.kill()
    victims[0].process.wait()
    assert survivors(pids) == []
    assert not folder.exists()


def test_ranks_die_with_their_server(victims: list[Victim]) -> None:
    """SIGKILL of the fork server ends its ranks, even one that hangs in C and holds the interpreter, and what they have
    started, daemons included; their owner is told so, and leaves no folder behind when it exits."""
    (server, *ranks_and_children), folder = victims[1].wait_until_up()
    assert len(ranks_and_children) == 8
    os.kill(server, signal.SIGKILL)
    assert survivors(ranks_and_children) == []
    _, errors = victims[1].process.communicate(timeout=60)
    assert re.search(r"rank \d of 2 died with its fork server", errors)
    assert "the fork server ended with status -9" in errors
    assert not folder.exists()


def test_closed_pool_leaves_nothing() -> None:
    """When a pool is closed its ranks, what they have started, its folder and its file descriptors are gone."""
    with RankPool(Platform.cpu(1)):
        pass  # the fork server runs from here on
    descriptors = psutil.Process().num_fds()
    with RankPool(Platform.cpu(2)) as pool:
        children = pool.run(rank_jobs.start_a_child)
        pids, folder = pool.pids, pool.folder
        assert folder.exists()
        assert all(is_running(pid) for pid in [*pids, *children])
    assert survivors([*pids, *children]) == []
    assert not folder.exists()
    assert psutil.Process().num_fds() == descriptors


def test_dead_rank_takes_along_what_it_started(ranks: Callable[[int], RankPool]) -> None:
    """When a rank dies by itself, processes that it has started die too, before anybody closes the pool."""
    pool = ranks(2)
    children = pool.run(rank_jobs.start_a_child)
    os.kill(pool.pids[0], signal.SIGKILL)
    assert survivors(children[:1]) == []
    assert is_running(children[1])


def test_failed_pool_leaves_nothing(ranks: Callable[[int], RankPool]) -> None:
    """When a job fails, every rank of its pool is dead and the folder is gone before the error arrives."""
    pool = ranks(2)
    pids, folder = pool.pids, pool.folder
    with pytest.raises(RanksFailedError):
        pool.run(rank_jobs.raise_before_collective, 0)
    assert [pid for pid in pids if is_running(pid)] == []
    assert not folder.exists()


def test_interrupted_job_kills_its_ranks(ranks: Callable[[int], RankPool]) -> None:
    """Ctrl-C in the middle of a job ends the ranks and passes on."""
    pool = ranks(2)
    pids = pool.pids

    def interrupt(rank: int, message: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run(rank_jobs.progress_often, 1, 0.0, on_progress=interrupt)
    assert [pid for pid in pids if is_running(pid)] == []


def test_ranks_listen_on_loopback_only(ranks: Callable[[int], RankPool]) -> None:
    """No rank accepts connections from beyond this machine; a listener that does is seen."""
    addresses = {address for found in ranks(2).run(rank_jobs.listening_addresses) for address in found}
    assert addresses
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert "0.0.0.0" in ranks(2).run(rank_jobs.listen_everywhere)[0]
