"""Where the machine refuses what ranks need, that is one clear error with a remedy, and nothing is left open."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from correctness_tests.suite import rank_jobs
from fixtures.errors import UsageError
from fixtures.platforms import Platform
from fixtures.ranks import RankPool, RankPools
from fixtures.ranks.launcher import Launcher, prestart

pytestmark = pytest.mark.cpu

TWO = Platform.cpu(2)


@pytest.fixture(autouse=True)
def nothing_stays_open(rank_pools: RankPools) -> Iterator[None]:
    """Each refusal leaves pytest with the descriptors that it had, and the next pool works."""
    rank_pools.close()
    prestart()
    before = psutil.Process().num_fds()
    yield
    assert psutil.Process().num_fds() == before
    assert rank_pools.get(TWO).run(rank_jobs.all_reduce) == [3.0, 3.0]


def test_current_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks start where pytest is; when that folder has been deleted, the error says so."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match=r"finding the current folder failed: .* Change to a folder that exists\."):
        RankPool(TWO)
    monkeypatch.chdir(tmp_path)


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for temporary files that is none stops the fork server before it starts, with its name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nonesuch"))
    with pytest.raises(UsageError, match=r"starting their fork server failed: .*nonesuch.* set TMPDIR"):
        Launcher("cpu")


def test_no_room_for_the_output_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """When there is no room for a pool's folder, the error says where room is needed."""

    def full(prefix: str, dir: Path) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(dir))

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(UsageError, match=r"No space left on device \(/.*\)\. Make room there"):
        RankPool(TWO)


@pytest.mark.parametrize("spare", range(6))
def test_no_descriptor_left(spare: int) -> None:
    """When pytest can open no more files, the error names the limit to raise, and what was opened is closed: whichever
    of the six descriptors that two ranks need at once is the first that is not to be had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_limit_that_spares(spare), hard))
    try:
        with pytest.raises(UsageError, match=r"Too many open files.*ulimit -n"):
            RankPool(TWO)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _limit_that_spares(spare: int) -> int:
    """The limit on descriptors under which so many can still be opened: the lowest that are free."""
    listed = os.listdir("/proc/self/fd")  # itself one of them, and closed by now
    taken = {int(name) for name in listed if os.path.exists(f"/proc/self/fd/{name}") or name == "0"}
    free = (number for number in itertools.count() if number not in taken)
    return next(itertools.islice(free, spare, None))
