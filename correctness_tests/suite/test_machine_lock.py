"""Perf launches never overlap on one machine: a second job says that it waits, and then goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fixtures import experiment
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


def test_free_machine_is_taken_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a job that has the machine to itself says nothing."""
    monkeypatch.setattr(experiment, "lock_folder", lambda: tmp_path)
    waits: list[str] = []
    with machine_lock(waits.append):
        pass
    assert waits == []
