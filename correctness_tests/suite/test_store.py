"""A file is replaced in one step that survives a crash, and what the file system or a lock says is told by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from fixtures.errors import UsageError
from fixtures.gate.store import guarded, locked, no_file, write_atomic

pytestmark = pytest.mark.cpu


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is there."""
    path = tmp_path / "file.json"
    path.write_text("old")
    return path


def test_text_is_stored_as_it_is(path: Path) -> None:
    """UTF-8, and no line end is translated."""
    write_atomic(path, "\u00e9\n\r\n")
    assert path.read_bytes() == b"\xc3\xa9\n\r\n"


def test_what_was_written_outlives_a_crash(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is on the disk before the file takes its name, and the folder's entry after it."""
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def flushed(handle: int) -> None:
        what = Path(os.readlink(f"/proc/self/fd/{handle}"))
        done.append("the folder" if what == path.parent else what.read_text())
        fsync(handle)

    def renamed(fresh: Path, name: Path) -> None:
        assert fresh.parent == name.parent, "one step only within one folder"
        done.append(f"renamed to {name.name}")
        replace(fresh, name)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    write_atomic(path, "new")
    assert done == ["new", "renamed to file.json", "the folder"]


def test_two_writers_never_share_a_temporary_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is hidden, says whose file it will be and which process writes it, and differs from time to time."""
    names: list[str] = []

    def renamed(fresh: Path, name: Path) -> None:
        names.append(fresh.name)

    monkeypatch.setattr(os, "replace", renamed)
    write_atomic(path, "new")
    write_atomic(path, "new")
    assert len(set(names)) == 2
    assert all(name.startswith(f".file.json.{os.getpid()}.") and name.endswith(".tmp") for name in names)
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


def test_no_handle_stays_open(path: Path) -> None:
    """Neither the file's nor the folder's."""
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        write_atomic(path, "new")
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_folder_that_can_not_be_flushed_is_no_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems can't: the file is there all the same."""
    opened = os.open

    def refused(name: Path, flags: int) -> int:
        if Path(name) == path.parent:
            raise OSError("not of a folder")
        return opened(name, flags)

    monkeypatch.setattr(os, "open", refused)
    write_atomic(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize(("kind", "told"), [("pipe", "a pipe"), ("link", "a symbolic link"), ("folder", "a folder")])
def test_only_a_file_is_written_over(path: Path, kind: str, told: str) -> None:
    """A rename would end a pipe, a device or a link for whoever uses it: it stays, and nothing is left beside it."""
    special = path.with_name("special")
    {"pipe": os.mkfifo, "link": lambda name: name.symlink_to(path), "folder": os.mkdir}[kind](special)
    before = special.lstat()
    with pytest.raises(UsageError, match=f"special: is {told}, which nothing is written over. Remove it, or name"):
        write_atomic(special, "new")
    assert (special.lstat().st_mode, special.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["file.json", "special"]
    assert path.read_text() == "old"


def test_a_device_is_no_file() -> None:
    """As --report /dev/null would be, by a user who may replace it."""
    assert no_file(Path(os.devnull)) == "a device"


def test_nothing_and_a_file_may_be_written(path: Path) -> None:
    """Neither is in the way."""
    assert (no_file(path), no_file(path.with_name("new"))) == ("", "")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(28, "No space left on device"), "No space left on device"), (OSError("of its own"), "of its own")],
)
def test_what_the_file_system_says_is_told(path: Path, error: OSError, reason: str) -> None:
    """With the file's name; an error without a number says what it says."""
    with pytest.raises(UsageError) as caught, guarded(path):
        raise error
    assert str(caught.value) == f"{path}: can't be written: {reason}. What was there before is unchanged."


def test_other_errors_are_no_matter_of_the_disk(path: Path) -> None:
    """A fault of the code stays what it is."""
    with pytest.raises(KeyError), guarded(path):
        raise KeyError("x")


def test_lock_keeps_others_out(tmp_path: Path) -> None:
    """Who waits in vain is told the lock and the seconds."""
    path = tmp_path / ".lock"
    with locked(path), pytest.raises(UsageError) as caught, locked(path, timeout_s=0.05):
        pytest.fail("entered a lock that is held")
    said = "another process has held this lock for 0.05 s. Wait for it to end, or end it."
    assert str(caught.value) == f"{path}: {said}"


def test_lock_is_given_back(tmp_path: Path) -> None:
    """Also after a failure."""
    path = tmp_path / ".lock"
    with pytest.raises(KeyError), locked(path):
        raise KeyError("x")
    with FileLock(path, timeout=0):
        pass
