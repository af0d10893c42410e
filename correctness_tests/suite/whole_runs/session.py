"""One whole session of pytest in a process of its own: how it ended, and every test that failed in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from correctness_tests.suite.planting import Fault

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = "correctness_tests.suite.whole_runs.planted"
CPU, REHEARSAL = "cpu", "rehearsal"
COMMANDS: dict[str, tuple[str, ...]] = {
    CPU: ("correctness_tests", "perf_tests", "-m", "cpu"),
    # the fewest launches of an arm that are judged; what is judged here does not vary from launch to launch
    REHEARSAL: ("perf_tests", "-m", "gpu", "--rehearse", "--launches", "3", "--history", "off"),
}
NOT_TOLD = ("GITHUB_", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")
"""A session under a fault annotates no run of CI and takes no options from around it."""
LIMIT_S = 1800.0
TAIL = 2000


@dataclass(frozen=True)
class Failed:
    """A test that failed: its node id, what it raised, and whether a check of it did."""

    test: str
    text: str
    checked: bool = True

    @property
    def case(self) -> str:
        """``file.py::test[case]`` without folders."""
        return self.test.rpartition("/")[2]


@dataclass(frozen=True)
class Session:
    """How a session ended: pytest's exit status (None: killed at its limit), its failures, the end of its output."""

    status: int | None
    failed: tuple[Failed, ...] = ()
    tail: str = ""
    seconds: float = field(default=0.0, compare=False)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        failed = [vars(one) for one in self.failed]
        return {"status": self.status, "failed": failed, "tail": self.tail, "seconds": round(self.seconds, 1)}

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> Session:
        """From ``as_data``."""
        return cls(data["status"], tuple(Failed(**one) for one in data["failed"]), data["tail"], data["seconds"])


def run_session(kind: str, fault: Fault | None, options: Sequence[str] = ()) -> Session:
    """Run the cpu tier or a rehearsal, with a fault planted or with none; ``options`` are the plugin's."""
    with tempfile.TemporaryDirectory(prefix="shardgate-whole-run-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "pytest", *arguments(kind, fault, folder), *options]
        began = time.monotonic()
        status, output = _run(command, folder / "output")
        return Session(status, _failures(folder / "failures"), output, time.monotonic() - began)


def arguments(kind: str, fault: Fault | None, folder: Path) -> list[str]:
    """What pytest is called with."""
    found = [*COMMANDS[kind], "-p", PLUGIN, "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=short", "-q"]
    found += ["--failures", str(folder / "failures"), "--results", str(folder / "results")]
    if fault is not None:
        found += ["--rank-patch", fault.rank_patch]
        found += ["--named", fault.test, "--message", fault.caught.message] if kind == CPU else []
    return found


def _run(command: list[str], output: Path) -> tuple[int | None, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_TOLD)}
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        status: int | None
        try:
            status = process.wait(LIMIT_S)
        except BaseException as error:  # an interrupt too: what was started ends with this
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            status = None
    return status, output.read_text(encoding="utf-8", errors="replace")[-TAIL:]


def _failures(path: Path) -> tuple[Failed, ...]:
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(Failed(**json.loads(line)) for line in lines)
