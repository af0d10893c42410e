"""Whatever a rank has started ends with it, wherever it went; and a fork server ends with the pytest that wants it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from correctness_tests.suite import rank_jobs
from correctness_tests.suite.rank_faults.trial import SHARED_MEMORY
from correctness_tests.suite.test_ranks_ending import ROOT, is_running, survivors, wait_until
from fixtures.platforms import Platform
from fixtures.ranks import RankPool
from fixtures.ranks.processes import MARK, SEGMENT, kill_marked, marked

pytestmark = pytest.mark.cpu

PRESTARTER = """
import sys
sys.path.insert(0, sys.argv[1])
from fixtures.ranks import prestart
launcher = prestart()
print(launcher.process.pid, launcher.folder, flush=True)
sys.stdin.read()
"""
"""A program that starts a fork server, for which ``torch`` is what lies in a folder, and says its pid and folder."""

SLOW_TORCH = """
import os, pathlib, time
here = pathlib.Path(__file__).parent
parent = os.getppid()
(here / "imports").touch()
while os.getppid() == parent:
    time.sleep(0.01)
try:
    import torch.more
except BaseException:
    pass
(here / "goes on").touch()
"""
"""A torch that is still being imported when the importer's parent dies, and then imports more."""


@pytest.fixture
def bystander() -> Iterator[int]:
    """The pid of a process in a session and a group of its own."""
    with subprocess.Popen(["sleep", str(rank_jobs.FOREVER_S)], start_new_session=True) as process:
        yield process.pid
        process.kill()


def test_closed_pool_ends_daemons() -> None:
    """When a pool is closed, processes that have left its ranks' sessions and groups are gone too, daemons included."""
    with RankPool(Platform.cpu(1)) as pool:
        (daemons,) = pool.run(rank_jobs.start_daemons)
        assert all(is_running(pid) for pid in daemons)
        assert all(os.getsid(pid) != os.getsid(pool.pids[0]) for pid in daemons)
    assert survivors(daemons) == []


def test_dead_rank_takes_along_its_own_daemons(ranks: Callable[[int], RankPool]) -> None:
    """When a rank dies by itself its daemons die with it, and those of a living rank live on, until it dies."""
    pool = ranks(2)
    dying, living = pool.run(rank_jobs.start_daemons)
    os.kill(pool.pids[0], signal.SIGKILL)
    assert survivors(dying) == []
    assert all(is_running(pid) for pid in living)
    pool.close()
    assert survivors(living) == []


def test_server_waits_for_orphans(ranks: Callable[[int], RankPool]) -> None:
    """What the fork server has killed in a dead rank's place leaves no zombie behind."""
    pool = ranks(2)
    daemons = pool.run(rank_jobs.start_daemons)
    pool.close()
    assert wait_until(lambda: not any(psutil.pid_exists(pid) for pair in daemons for pid in pair))


def test_lost_server_spares_strangers(bystander: int) -> None:
    """What carries no mark of this server, or that of another one, is left alone when the server is gone."""
    command = ["sleep", str(rank_jobs.FOREVER_S)]

    def start(mark: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, start_new_session=True, env={**os.environ, MARK: mark})

    with start("/tmp/mine") as own, start("/tmp/mine-too") as other:
        assert wait_until(lambda: marked("/tmp/mine") == {own.pid} and marked("/tmp/mine-too") == {other.pid})
        kill_marked("/tmp/mine")
        own.wait()
        assert survivors([own.pid]) == []
        assert is_running(other.pid)
        assert is_running(bystander)
        other.kill()


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """A process that owns a fork server, which still imports torch; the server's pid and folder."""
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text(SLOW_TORCH)
    command = [sys.executable, "-c", PRESTARTER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, folder = process.stdout.readline().split()
        assert wait_until((torch / "imports").exists)
        yield process, int(pid), Path(folder)
        process.kill()


def test_guardian_outlives_owner_and_server(stand_in: tuple[subprocess.Popen[str], int, Path]) -> None:
    """When pytest and its fork server are killed at one blow, what their ranks had started is killed all the same, and
    their folder and shared memory are removed; another server's shared memory is not."""
    owner, server, folder = stand_in
    short = folder.name.rpartition("-")[2]
    mine, other = (SHARED_MEMORY / f"{SEGMENT}{name}-1_0" for name in (short, f"{short}x"))
    try:
        for segment in (mine, other):
            segment.touch()
        with subprocess.Popen(
            ["sleep", str(rank_jobs.FOREVER_S)], start_new_session=True, env={**os.environ, MARK: str(folder)}
        ) as daemon:
            os.kill(server, signal.SIGKILL)
            owner.kill()
            left = survivors([daemon.pid])
            daemon.kill()
        assert left == []
        assert wait_until(lambda: not (folder.exists() or mine.exists()))
        assert other.exists()
    finally:
        other.unlink(missing_ok=True)


def test_server_notices_during_its_preload_that_it_is_alone(
    stand_in: tuple[subprocess.Popen[str], int, Path], tmp_path: Path
) -> None:
    """When pytest dies while the fork server still imports, the server goes no further than the next import, even if
    that is guarded against every exception, and removes its folder."""
    owner, server, folder = stand_in
    owner.kill()
    assert survivors([server]) == []
    assert not (tmp_path / "torch" / "goes on").exists()
    assert wait_until(lambda: not folder.exists())
