"""One trial of one fault: plant it on two real ranks, and list all that is wrong with how it was reported."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from correctness_tests.suite.rank_faults import jobs
from correctness_tests.suite.rank_faults.catalogue import LeftRunning, RankFault
from fixtures.platforms import Platform
from fixtures.ranks import RankPool, RankPools, RanksFailedError
from fixtures.ranks.processes import marked

TWO = Platform.cpu(2)
SHARED_MEMORY = Path("/dev/shm")
LIVES = r"^rank (\d) (?:was alive|.* without progress,) in (?!a place)"
"""Begins the line on a rank that could be asked for its stack."""

FAIR_WAIT_S = 5.0
"""How long what was killed may take to be gone; much less is usual."""

MAY_GROW_BYTES = 128 * 1024**2
"""How much memory a fault may cost pytest's own process: a result may be 64 MiB large, and is copied once."""


@dataclass
class Trial:
    """What came of it: ``wrong`` is empty when all was right.

    ``seconds`` from the fault, or from the deadline where only that ends it, to the report; None without a report.
    """

    seconds: float | None = None
    wrong: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    message: str = ""


class Belongings:
    """What a pool has of the machine, so that it can be asked what is still there when the pool is gone."""

    def __init__(self, pool: RankPool) -> None:
        self.mark = pool._launcher.mark
        self.pids, self.folder = pool.pids, pool.folder
        self.others = {pid for pid in marked(self.mark) if not _is_of(pid, self.pids)}
        self.segments: set[str] = set()
        """Names of shared memory that its ranks have made."""
        self.descriptors = psutil.Process().num_fds() - 2 * len(self.pids)

    def note(self, notes: str) -> None:
        """Take the names of shared memory from a trial's folder."""
        self.segments |= {
            path.name.removeprefix(jobs.SEGMENT_NOTE) for path in Path(notes).glob(f"{jobs.SEGMENT_NOTE}*")
        }

    def left(self) -> list[str]:
        """What is left of it after a fair wait: processes (and with them their ports), files, shared memory."""
        until = time.monotonic() + FAIR_WAIT_S
        while (found := self._left()) and time.monotonic() < until:
            time.sleep(0.02)
        return found

    def _left(self) -> list[str]:
        found = [f"process {pid}" for pid in sorted(marked(self.mark) - self.others)]
        found += [f"folder {self.folder}"] if self.folder.exists() else []
        of_the_ranks = re.compile(rf"[_-]({'|'.join(map(str, self.pids))})_")
        shared = {name for name in os.listdir(SHARED_MEMORY) if name in self.segments or of_the_ranks.search(name)}
        found += [f"shared memory {name}" for name in sorted(shared)]
        if (now := psutil.Process().num_fds()) > self.descriptors:
            found.append(f"{now - self.descriptors} file descriptors")
        return found


def _is_of(pid: int, ranks: list[int]) -> bool:
    """Whether it is one of these ranks, or has been started by one."""
    try:
        return pid in ranks or any(parent.pid in ranks for parent in psutil.Process(pid).parents())
    except psutil.NoSuchProcess:
        return True


def try_fault(fault: RankFault, pools: RankPools) -> Trial:
    """Plant it on a healthy pool; the pool is gone afterwards, and the next one has run a job."""
    pool = pools.get(TWO)
    belongings = Belongings(pool)
    with tempfile.TemporaryDirectory(prefix="shardgate-trial-") as notes:
        trial = _run(fault, pool, notes)
        belongings.note(notes)
    trial.left_behind = belongings.left()
    if pools.get(TWO).run(jobs.sum_of_ones) != [2.0, 2.0]:
        trial.wrong.append("the next job did not run")
    return trial


def _run(fault: RankFault, pool: RankPool, notes: str) -> Trial:
    began, memory = time.monotonic(), psutil.Process().memory_info().rss
    size = () if fault.at_size is None else (fault.at_size,)
    try:
        pool.run(fault.job, notes, *fault.arguments, *size, deadline_s=fault.deadline_s)
    except RanksFailedError as error:
        reported = time.monotonic()
        struck = [float(path.read_text()) for path in Path(notes).glob("struck-*")]
        since = min(struck, default=began) + (fault.deadline_s if fault.needs_the_deadline else 0)
        trial = Trial(reported - since, _wrong(fault, error), message=str(error))
        if (grown := psutil.Process().memory_info().rss - memory) > MAY_GROW_BYTES:
            trial.wrong.append(f"pytest has grown by {grown // 1024**2} MiB")
        return trial
    return Trial(wrong=["nothing was reported"])


def _wrong(fault: RankFault, error: RanksFailedError) -> list[str]:
    """What a report lacks: the right rank, kind and cause first, with its own evidence; every other rank's state."""
    cause, message = error.failures[0], str(error)
    first_line = message.partition("\n")[0]
    shown = f"{cause.traceback}\n{cause.output}"
    checks: dict[str, Callable[[], object]] = {
        f"the headline is of rank {fault.rank}": lambda: fault.rank in (None, cause.rank),
        f"it failed by {fault.kind}, not {cause.kind}": lambda: cause.kind is fault.kind,
        f"the cause reads {fault.what!r}": lambda: re.search(fault.what, cause.what),
        "the message begins with it": lambda: first_line.startswith(f"rank {cause.rank} of 2 {cause.what[:40]}"),
        f"the first failure in time has {fault.shows!r}": lambda: re.search(fault.shows, shown),
        f"rank {1 - cause.rank} {fault.peer!r}": lambda: re.search(
            rf"^rank {1 - cause.rank} ({fault.peer})", message, re.MULTILINE
        ),
        "a message that people can read": lambda: len(message) < 50_000,
        "the stacks of the living": lambda: all(
            f"stack of rank {rank}, innermost first:\n" in message
            for rank in re.findall(
                r"^rank (\d) (?:was alive|.* without progress,) in (?!a place)", message, re.MULTILINE
            )
        ),
    }
    return [f"missing: {what}" for what, holds in checks.items() if not holds()]


def try_left_running(fault: LeftRunning, pools: RankPools) -> Trial:
    """Run the job that leaves something; the next test's pool must be another, and nothing be left of the first."""
    pool = pools.get(TWO)
    if not pool.clean:
        return Trial(wrong=["the pool was not clean to begin with"])
    belongings = Belongings(pool)
    pool.run(fault.job)
    trial = Trial(0.0)
    if pool.clean:
        trial.wrong.append("nobody noticed that something was left running")
    pool.close()  # what RankPools does before it hands out the next one
    trial.left_behind = belongings.left()
    next_pool = pools.get(TWO)
    if next_pool is pool or next_pool.run(jobs.sum_of_ones) != [2.0, 2.0]:
        trial.wrong.append("the next job did not run on other ranks")
    return trial
