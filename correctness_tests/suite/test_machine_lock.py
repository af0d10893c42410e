"""Perf launches never overlap on one machine: a second job says that it waits, and then goes on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures import experiment
from fixtures.errors import UsageError
from fixtures.experiment import machine_lock

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(30)]


def test_second_job_waits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one job holds the machine, another names the lock it waits for; it runs once the first has ended."""
    monkeypatch.setattr(experiment, "lock_folder", lambda: tmp_path)
    waits: list[str] = []
    waiting, order = threading.Event(), []

    def say(line: str) -> None:
        waits.append(line)
        waiting.set()

    def second_job() -> None:
        with machine_lock(say):
            order.append("second")

    with machine_lock(say):
        thread = threading.Thread(target=second_job)
        thread.start()
        assert waiting.wait(10), "the second job did not say that it waits"
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert len(waits) == 1
    assert str(tmp_path) in waits[0]


@pytest.mark.parametrize("left", ["a file of another user", "a folder", "a link"])
def test_lock_that_cannot_be_taken_is_named(left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else has left in the lock's place is one error that names it, and is left there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    path = folder / f"shardgate-{os.getuid()}.lock"
    if left == "a folder":
        path.mkdir()
    elif left == "a link":
        path.symlink_to(target := tmp_path / "precious")
        target.write_text("precious")
    else:
        path.touch(mode=0o400)
        monkeypatch.setattr(os, "open", _refusing(os.open, path))
    monkeypatch.setattr(experiment, "lock_folder", lambda: folder)
    with pytest.raises(UsageError, match=rf"can't be taken: {path}: .*another user"), machine_lock(print):
        pass
    assert path.is_dir() or path.is_symlink() or path.read_bytes() == b""
    assert left != "a link" or target.read_text() == "precious"


def _refusing(real: Callable[..., int], path: Path) -> Callable[..., int]:
    """``os.open`` as it answers where a sticky folder holds another user's file: to root too, for protected files."""

    def refuse(name: str, *args: Any, **kwargs: Any) -> int:
        if str(name) == str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(name, *args, **kwargs)

    return refuse


def test_free_machine_is_taken_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a job that has the machine to itself says nothing."""
    monkeypatch.setattr(experiment, "lock_folder", lambda: tmp_path)
    waits: list[str] = []
    with machine_lock(waits.append):
        pass
    assert waits == []
