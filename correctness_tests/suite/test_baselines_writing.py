"""Writing a baseline leaves the old file or the new one, whole, whatever goes wrong."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from correctness_tests.suite.synthetic import ARMS, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import BaselineFile, load_baseline, render, write_baseline

pytestmark = pytest.mark.cpu

OLD = accepted()
NEW = accepted(Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=1.05)}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the old baseline lies."""
    return write_baseline(tmp_path, OLD, replaces=None)


def fails_with(error: OSError) -> Callable[..., Any]:
    """A function of the operating system that fails."""

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    return fail


def test_new_file_replaces_the_old(path: Path) -> None:
    """What was written is what loads."""
    write_baseline(path.parent, NEW, replaces=load_baseline(path))
    assert path.read_text() == render(NEW)


def test_figures_are_kept_to_six_digits(path: Path) -> None:
    """Ratios and amounts, at every depth; whole numbers as they are."""
    tree = json.loads(path.read_text())
    case_id = "gpt2-rehearsal/fsdp2:ddp/resident"
    assert OLD.entries[case_id].ratio == 1 / 6
    assert (tree["entries"][case_id]["ratio"], tree["entries"][case_id]["nights"][0][0]) == (0.166667, 0.166667)
    assert tree["entries"][case_id]["workload"]["num_params"] == 1_000_000


def test_folder_is_made(tmp_path: Path) -> None:
    """A folder that is not there yet is made."""
    assert write_baseline(tmp_path / "new" / "folder", OLD, replaces=None).exists()


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("fsync", errno.ENOSPC, "No space left on device"),
        ("replace", errno.EROFS, "Read-only file system"),
        ("replace", errno.EACCES, "Permission denied"),
    ],
)
def test_failure_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, function: str, code: int, words: str
) -> None:
    """A full disk, a read-only one, a missing right: UsageError, the old bytes, no temporary file."""
    before = path.read_bytes()
    monkeypatch.setattr(os, function, fails_with(OSError(code, os.strerror(code))))
    with pytest.raises(UsageError, match=f"{path.name}.*{words}.*unchanged"):
        write_baseline(path.parent, NEW, replaces=OLD)
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == [".lock", path.name]


def _write_with_little_room(directory: Path) -> None:
    """Write with a limit on file sizes of 300 bytes: the operating system really takes part of the file and no more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
    with pytest.raises(UsageError, match="File too large"):
        write_baseline(directory, NEW, replaces=OLD)


def test_file_cut_short_by_the_system_never_shows(path: Path) -> None:
    """A write that the operating system cuts in the middle leaves the old bytes and no temporary file."""
    before = path.read_bytes()
    writer = multiprocessing.get_context("fork").Process(target=_write_with_little_room, args=(path.parent,))
    writer.start()
    writer.join(30)
    assert writer.exitcode == 0
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == [".lock", path.name]


def test_invalid_file_is_never_written(path: Path) -> None:
    """A record made past its own checks (NaN, a ratio outside its interval) is refused before anything is touched."""
    before = path.read_bytes()
    case_id, entry = next(iter(NEW.entries.items()))
    for nonsense in (float("nan"), 1e6):
        broken = entry.model_copy(update={"ratio": nonsense})
        file = NEW.model_copy(update={"entries": {**NEW.entries, case_id: broken}})
        with pytest.raises(UsageError, match="Nothing was written"):
            write_baseline(path.parent, file, replaces=OLD)
    assert path.read_bytes() == before


def test_file_changed_meanwhile_is_kept(path: Path) -> None:
    """What another session wrote since this one read is not overwritten."""
    write_baseline(path.parent, NEW, replaces=OLD)
    with pytest.raises(UsageError, match="changed since this session read it"):
        write_baseline(path.parent, OLD, replaces=OLD)
    assert path.read_text() == render(NEW)


def test_broken_file_is_not_overwritten(path: Path) -> None:
    """A file that can't be read is not replaced: what it held may matter."""
    path.write_text("{")
    with pytest.raises(UsageError, match="broken JSON"):
        write_baseline(path.parent, NEW, replaces=OLD)
    assert path.read_text() == "{"


def test_held_lock_is_named(path: Path) -> None:
    """A lock that another process keeps is a UsageError naming it, and nothing is written."""
    before = path.read_bytes()
    with (
        FileLock(path.parent / ".lock"),
        pytest.raises(UsageError, match=r"\.lock: another process has held this lock for 0\.05 s"),
    ):
        write_baseline(path.parent, NEW, replaces=OLD, timeout_s=0.05)
    assert path.read_bytes() == before


def _update(directory: Path, ratio: float, rounds: int) -> None:
    """Another session that writes again and again; losing a race is expected."""
    for _ in range(rounds):
        try:
            old = load_baseline(directory / "cpu-gloo-4.json")
            write_baseline(directory, scaled(ratio), replaces=old)
        except UsageError as error:
            if "changed since" not in str(error):
                raise


def scaled(ratio: float) -> BaselineFile:
    """A baseline whose fsdp2 keeps this much more."""
    return accepted(Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=ratio)}))


def test_concurrent_writers_never_tear_the_file(path: Path) -> None:
    """3 writers and a reader: each read is one of the files that a writer wrote, whole."""
    ratios = (1.01, 1.02, 1.03)
    allowed = {render(OLD), *(render(scaled(ratio)) for ratio in ratios)}
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_update, args=(path.parent, ratio, 8)) for ratio in ratios]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(path.read_text())
        writers[0].join(0.002)
    for writer in writers:
        writer.join(30)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert seen | {path.read_text()} <= allowed
