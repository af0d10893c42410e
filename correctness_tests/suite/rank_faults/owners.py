"""The end of pytest itself while it has ranks: however it is ended, and whenever, nothing of it stays.

A trial is a real session in a folder of its own, whose one test waits for a rank that hangs in C and holds the
interpreter, with a daemon of its own beside it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from correctness_tests.suite.rank_faults.trial import FAIR_WAIT_S, SHARED_MEMORY, Trial

ROOT = Path(__file__).parents[3]
START_S = 200.0
"""How long a session may take until its ranks are up."""

END_S = 60.0
"""How long one may take to end: on a machine that is busy with other things an interpreter's end alone takes 20 s."""

CACHES = ("torchinductor_",)
"""Beginnings of what torch keeps in the folder of temporary files from one process to the next, on purpose."""

ANY_MOMENT_S = 8.0
"""A random moment lies within so long of a session's start; the ranks are up after about half of it."""

SESSION = """
import pathlib

import pytest
from correctness_tests.suite import rank_jobs

@pytest.mark.cpu
def test_waits(ranks):
    pool = ranks(2)
    pool.run(rank_jobs.start_daemons)
    pathlib.Path("segments").write_text("\\n".join(pool.run(rank_jobs.hold_shared_memory)))
    pathlib.Path("up").touch()
    pool.run(rank_jobs.hang_in_c, 0, deadline_s=rank_jobs.FOREVER_S)
"""


@dataclass(frozen=True)
class OwnerFault:
    """A way to end pytest: these signals, the second shortly after the first; the exit status that it must have.

    ``with_server``: its fork server gets them at the same time, so that neither of the two can clean up.
    """

    name: str
    signals: tuple[signal.Signals, ...]
    status: int
    with_server: bool = False

    def __str__(self) -> str:
        return self.name


OWNER_FAULTS = (
    OwnerFault("pytest: SIGTERM", (signal.SIGTERM,), -signal.SIGTERM),
    OwnerFault("pytest: SIGKILL", (signal.SIGKILL,), -signal.SIGKILL),
    OwnerFault("pytest and its fork server: SIGKILL", (signal.SIGKILL,), -signal.SIGKILL, with_server=True),
    OwnerFault("pytest: Ctrl-C", (signal.SIGINT,), 2),
    OwnerFault("pytest: Ctrl-C twice", (signal.SIGINT, signal.SIGINT), 2),
)


class Session:
    """A running session of pytest; ``folder`` holds its test, its temporary files and its output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True)
        (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  cpu: one tier\n  gpu: the other\n")
        (folder / "test_session.py").write_text(SESSION)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-p", "fixtures.plugin", "-p", "no:cacheprovider", "-q"]
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def wait_for(self, holds: Callable[[], bool]) -> bool:
        """Whether it came true before the session ended or its time was up."""
        until = time.monotonic() + START_S
        while not holds() and self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        return holds()

    def is_up(self) -> bool:
        """Whether its ranks run, and one of them hangs."""
        return (self.folder / "up").exists()

    def is_preloading(self) -> bool:
        """Whether its fork server has been started."""
        return any(self.temporary.glob("shardgate-ranks-*"))

    def end(self, fault: OwnerFault, pause_s: float) -> Trial:
        """Send the signals as a terminal does, to all of its group; what is wrong with how it ended, and what is left.

        ``pause_s`` lies between two signals.
        """
        was_up, began = self.is_up(), time.monotonic()
        groups = [self.process.pid, *(self.servers() if fault.with_server else ())]
        for number in fault.signals:
            for group in groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, number)
            time.sleep(pause_s if number is not fault.signals[-1] else 0)
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return Trial(wrong=["it did not end"], message=self.output())
        trial = Trial(message=self.output())
        trial.left_behind = self._left_after_a_fair_wait()
        trial.seconds = time.monotonic() - began
        if was_up and len(fault.signals) == 1 and status != fault.status:
            trial.wrong.append(f"exit status {status}, not {fault.status}")
        if status == 0:
            trial.wrong.append("it says that all went well")
        return trial

    def servers(self) -> list[int]:
        """The pids of its fork servers, each the head of a group."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children()
            return [child.pid for child in children if any("fixtures.ranks.server" in word for word in child.cmdline())]
        return []

    def output(self) -> str:
        """What it has printed so far."""
        return (self.folder / "output").read_text(errors="replace")

    def _left_after_a_fair_wait(self) -> list[str]:
        until = time.monotonic() + FAIR_WAIT_S
        while (found := self.left()) and time.monotonic() < until:
            time.sleep(0.02)
        return found

    def left(self) -> list[str]:
        """Processes that have its folder of temporary files in their environment, and what lies in that folder."""
        wanted, found = f"TMPDIR={self.temporary}".encode(), []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted in entry.read_bytes().split(b"\0"):
                    found.append(f"process {entry.parent.name}")
        note = self.folder / "segments"
        segments = note.read_text().split() if note.exists() else []
        found += [f"shared memory {name}" for name in segments if (SHARED_MEMORY / name).exists()]
        return found + [f"file {path.name}" for path in self.temporary.iterdir() if not path.name.startswith(CACHES)]


def try_owner_fault(fault: OwnerFault, folder: Path, draw: random.Random) -> Trial:
    """End a session at a random moment of its life; the moment is in the message."""
    session = Session(folder)
    at, pause_s = draw.uniform(0, ANY_MOMENT_S), draw.uniform(0, 0.3)
    time.sleep(at)
    trial = session.end(fault, pause_s)
    trial.message = f"{at:.3f} s after its start, signals {pause_s:.3f} s apart\n{trial.message}"
    return trial
