"""The surroundings in which a session must work, and one session in each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from correctness_tests.suite.sessions.apart import NOT_ALLOWED
from correctness_tests.suite.sessions.sockets import SocketWatch

ROOT = Path(__file__).parents[3]
CHECKOUT = ("baselines", "correctness_tests", "fixtures", "perf_tests", "conftest.py", "tox.ini", "pyproject.toml")
"""What a session needs of the checkout."""

TESTS = (
    "correctness_tests/test_collectives.py",
    "correctness_tests/suite/test_ranks_run.py::test_ranks_reach_each_other",
    "correctness_tests/suite/test_ranks_run.py::test_tensors_travel_both_ways",
)
"""Tests that start ranks, reach every rank from every other, and take little time."""

REHEARSAL = (
    *("perf_tests/test_no_growth.py", "-m", "gpu", "-k", "ddp", "--rehearse", "--workload", "mlp"),
    *("--world-size", "2", "--launches", "3", "--timed-steps", "1"),
)


@dataclass(frozen=True)
class Surroundings:
    """Where a session runs: ``folder`` holds its checkout and ``arguments`` are what pytest is given.

    ``apart``: without a network, and from a checkout that can't be written to. ``at_once`` sessions run side by side.
    """

    name: str
    folder: str = "plain"
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = (*TESTS, "-m", "cpu")
    apart: bool = False
    at_once: int = 1

    def __str__(self) -> str:
        return self.name


STRANGE = "ein Ördner, 文件 & 'mehr'"
NOWHERE = {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": "/nonexistent/cache"}
PLAIN_C = {"LC_ALL": "C", "LANG": "C"}

ALL_AT_ONCE = Surroundings("all of them at once", STRANGE, {**NOWHERE, **PLAIN_C}, apart=True)

SURROUNDINGS = (
    Surroundings("a path with spaces and letters beyond ASCII", STRANGE),
    Surroundings("a home that does not exist", environment=NOWHERE),
    Surroundings("the locale C", environment=PLAIN_C),
    Surroundings("no network, a checkout that can't be written to", apart=True),
    Surroundings("two sessions side by side", at_once=2),
    Surroundings("xdist with 4 workers", arguments=(*TESTS, "-m", "cpu", "-n", "4")),
    Surroundings("a rehearsal without a network", arguments=REHEARSAL, apart=True),
    ALL_AT_ONCE,
)


class Running:
    """A session that runs: started from a folder that is not the checkout's, its output kept, its sockets watched."""

    def __init__(self, surroundings: Surroundings, folder: Path) -> None:
        self.surroundings = surroundings
        self.checkout, self.elsewhere = folder / surroundings.folder / "checkout", folder / "elsewhere"
        if not self.checkout.exists():
            copy_checkout(self.checkout)
        self.elsewhere.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-c", str(self.checkout / "tox.ini")]
        command += ["--rootdir", str(self.checkout)]
        command += [str(self.checkout / part) if "tests/" in part else part for part in surroundings.arguments]
        if surroundings.apart and can_be_apart():
            command = [
                sys.executable,
                str(ROOT / "correctness_tests/suite/sessions/apart.py"),
                str(self.checkout),
                *command,
            ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI"))}
        environment = {**environment, "PYTHONPATH": "", **surroundings.environment}
        self.process = subprocess.Popen(
            command,
            cwd=self.elsewhere,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self.watch = SocketWatch(self.process.pid)
        self.watch.__enter__()

    def finish(self, timeout_s: float = 250.0) -> str:
        """Wait for its end; its output."""
        try:
            output, _ = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output = "it did not end"
        finally:
            self.watch.__exit__()
        return output

    def wrong(self, output: str) -> list[str]:
        """What is wrong with how it ended, and with what it opened."""
        found = [] if self.process.returncode == 0 else [f"exit status {self.process.returncode}"]
        passed = re.search(r"(\d+) passed", output)
        if not passed or re.search(r"\d+ (failed|error|skipped)", output):
            found.append("not all passed")
        if not self.watch.seen:
            found.append("no socket was seen at all, so the watch was blind")
        return found + [f"a socket beyond loopback: {socket}" for socket in sorted(self.watch.beyond)]


def run(surroundings: Surroundings, folder: Path) -> list[str]:
    """As many sessions as are to run at once, to their end; what is wrong, with the output of each that is."""
    sessions = [Running(surroundings, folder) for _ in range(surroundings.at_once)]
    outputs = [session.finish() for session in sessions]
    wrong = []
    for session, output in zip(sessions, outputs, strict=True):
        if found := session.wrong(output):
            wrong.append(f"{'; '.join(found)}\n{output[-3000:]}")
    return wrong


def copy_checkout(to: Path) -> None:
    """A copy of what a session needs, without what earlier ones have left but Python's caches, which save seconds."""
    to.mkdir(parents=True)
    left_out = shutil.ignore_patterns(".*", "results")
    for name in CHECKOUT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=left_out)
        else:
            shutil.copy(source, to / name)


@cache
def can_be_apart() -> bool:
    """Whether this machine lets the process have namespaces of its own: root on Linux, as in a container of CI."""
    command = [sys.executable, str(ROOT / "correctness_tests/suite/sessions/apart.py"), str(ROOT), "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode != NOT_ALLOWED
