"""Nights of a history that nobody measured, and processes that write them all at once, or are killed while they do."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from correctness_tests.suite.synthetic import Job, accepted
from fixtures.gate.comparisons import compare
from fixtures.gate.entries import StoredStack
from fixtures.history import Night, append_night, read_nights

FORK = multiprocessing.get_context("fork")
FIRST = datetime(2026, 1, 1, 2, 0, tzinfo=UTC)


@cache
def template() -> Night:
    """A judged night, of which the others are copies."""
    return Night.of(compare(Job(own_sd=0.01).measurements(), accepted(), gate_times=True))


def night(number: int, writer: int = 0) -> Night:
    """Night ``number`` after the first, as this writer measured it."""
    date = (FIRST + timedelta(days=number, seconds=writer)).isoformat(timespec="seconds")
    return template().model_copy(update={"id": f"{writer:016x}{number:016x}", "date": date})


def _write(path: Path, writer: int, nights: int) -> None:
    for number in range(nights):
        append_night(path, night(number, writer))


def concurrent_writers(path: Path, writers: int, nights: int) -> list[Night]:
    """Let so many processes append so many nights each to one file at once; returns what it holds in the end."""
    started = [FORK.Process(target=_write, args=(path, writer, nights)) for writer in range(writers)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * writers
    return read_nights(path)


def _write_for_ever(path: Path, first: int, wrote: int) -> None:
    for number in range(first, first + 100_000):
        append_night(path, night(number))
        os.write(wrote, b".")  # only now may anyone say that this night is kept


def killed_writers(path: Path, kills: int, seed: int = 1) -> Iterator[tuple[int, list[Night]]]:
    """SIGKILL a writer at a random moment, so many times; yields how many nights were kept for sure, and those read."""
    draw = random.Random(seed)
    promised = 0
    for _ in range(kills):
        ours, theirs = os.pipe()
        writer = FORK.Process(target=_write_for_ever, args=(path, promised, theirs))
        writer.start()
        os.close(theirs)
        promised += len(os.read(ours, 1))  # it is at work
        time.sleep(draw.uniform(0.0, 0.05))
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        while told := os.read(ours, 4096):
            promised += len(told)
        os.close(ours)
        found = read_nights(path)
        yield promised, found
        promised = len(found)  # a night may be whole in the file although its writer died before it said so


def drifting(
    logs: Sequence[float], stacks: Mapping[int, StoredStack] | None = None, metric: str = "step"
) -> list[Night]:
    """A night for each log ratio; from the nights in ``stacks`` on, with that stack. Each night has its own commit."""
    first = next(c for c in template().comparisons if c.case.id.endswith(f"fsdp2:ddp/{metric}"))
    made, stack = [], template().stack
    for number, log in enumerate(logs):
        stack = (stacks or {}).get(number, stack)
        comparison = first.model_copy(update={"ratio": 0.7 * math.exp(log), "low": None, "high": None})
        told = {"stack": stack, "commit": f"{number:012x}", "comparisons": (comparison,)}
        made.append(night(number).model_copy(update=told))
    return made
