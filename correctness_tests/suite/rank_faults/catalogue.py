"""Each kind of fault of a rank, and how it must be reported. Rank 1 of 2 is the culprit, where there is one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from correctness_tests.suite.rank_faults import exhaustion, jobs
from fixtures.ranks import FailureKind

WAITS = r"was alive in \w+ \(torch/distributed/.*, called by \w+ \(correctness_tests/suite/rank_faults/jobs\.py"
"""The other rank still waits in a collective: its place is told, and its stack."""

LOST = r"raised \w+: .*\(a consequence: it lost its peer\)|was alive in \w+ \(.*/(traceback|linecache)\.py|" + WAITS
"""The other rank has noticed that its peer is gone, or is about to say so, or had no time to."""

LATE = r"missed the deadline .* in all_reduce \(torch/distributed/"
"""The other rank waits in a collective too, and so misses the deadline too."""

DONE = r"finished after"
"""The other rank has returned."""

NO_MORE_S = 0.7
"""The deadline of a fault that only a deadline ends."""


@dataclass(frozen=True)
class RankFault:
    """A kind of fault: what runs, and what must be said of it.

    ``what`` is a regular expression for the headline, ``shows`` one for what the culprit leaves: its traceback, or the
    end of its output; ``peer`` one for the line on the other rank. ``rank`` is the culprit, None where either may be.
    """

    name: str
    job: Callable[..., Any]
    kind: FailureKind
    what: str
    peer: str
    shows: str = ""
    arguments: tuple[Any, ...] = ()
    rank: int | None = 1
    deadline_s: float = 60.0
    at_size: int | None = None
    """How large the fault is, where it has a size; the job's last argument."""

    def __str__(self) -> str:
        return self.name

    @property
    def needs_the_deadline(self) -> bool:
        """Whether nothing but the deadline ends it."""
        return self.kind is FailureKind.DEADLINE


def _raises(
    name: str, job: Callable[..., Any], what: str, peer: str = WAITS, shows: str = "", size: int | None = None
) -> RankFault:
    return RankFault(name, job, FailureKind.EXCEPTION, f"^raised {what}", peer, shows or job.__name__, at_size=size)


def _dies(name: str, job: Callable[..., Any], what: str, shows: str = "", *args: Any) -> RankFault:
    kind = FailureKind.EXIT if what.startswith("exited") else FailureKind.SIGNAL
    return RankFault(name, job, kind, f"^{what}", LOST, shows, args)


def _hangs(name: str, job: Callable[..., Any], where: str, peer: str = LATE) -> RankFault:
    what = f"^missed the deadline of {NO_MORE_S:g} s without progress, in {where}"
    return RankFault(name, job, FailureKind.DEADLINE, what, peer, deadline_s=NO_MORE_S)


SILENT = r"a place unknown: it did not answer the request for its stack"
MIB = 1024**2

FAULTS = (
    _raises("exception before a collective", jobs.raise_before, "ValueError: planted: before"),
    _raises("exception inside a collective", jobs.raise_inside, "RuntimeError: .*invalid output tensor list"),
    _raises("exception after a collective", jobs.raise_after, "ValueError: planted: after"),
    _raises("sys.exit", jobs.exit_by_exception, "SystemExit: 3"),
    RankFault(
        *("two exceptions at once", jobs.raise_twice, FailureKind.EXCEPTION),
        *(r"^raised ValueError: planted: on [01]$", r"raised ValueError: planted: on [01]"),
        rank=None,
    ),
    RankFault(
        *("exception and SIGKILL at once", jobs.raise_and_die, FailureKind.EXCEPTION),
        *(r"^raised ValueError: planted: beside a death", "was killed by SIGKILL"),
        rank=0,
    ),
    _dies("SIGSEGV", jobs.segfault, "was killed by SIGSEGV", r"(?s)Segmentation fault.*in segfault"),
    _dies("SIGABRT", jobs.die_of, "was killed by SIGABRT", "(?s)Aborted.*in die_of", int(signal.SIGABRT)),
    _dies("SIGKILL", jobs.die_of, "was killed by SIGKILL", "", int(signal.SIGKILL)),
    _dies("SIGKILL with shared memory", jobs.die_with_shared_memory, "was killed by SIGKILL"),
    _dies("SIGTERM", jobs.die_of, "was killed by SIGTERM", "", int(signal.SIGTERM)),
    _dies("exit 0 without finishing", jobs.exit_silently, "exited with status 0 without finishing", "", 0),
    _dies("exit 3 without finishing", jobs.exit_silently, "exited with status 3 without finishing", "", 3),
    _dies("exit 2 s after its sockets", jobs.exit_slowly, "exited with status 0 without finishing", "", 0),
    _hangs("SIGSTOP", jobs.stop, SILENT),
    _hangs("SIGSTOP in the middle of a message", jobs.stop_while_sending, SILENT, DONE),
    _hangs("hang in Python", jobs.hang, r"hang \("),
    _hangs("hang in C with the interpreter's lock", jobs.hang_in_c, r"hang_in_c \("),
    _hangs("hang in a collective whose peer has left", jobs.hang_alone, r"all_reduce \(torch/distributed", DONE),
    _raises("out of memory in Python", exhaustion.run_out_of_memory, "MemoryError", LOST),
    _raises("out of memory in torch", exhaustion.run_out_of_tensor_memory, "RuntimeError: .*can't allocate memory"),
    _raises("unpicklable result", jobs.return_unpicklable, "TypeError: .*, of type function, can't be", DONE, "lambda"),
    RankFault(
        *("result that can't be loaded", jobs.return_unloadable, FailureKind.EXCEPTION),
        *(r"^returned a result that can't be unpickled here: LookupError: planted", DONE),
    ),
    _raises("result of 500 MB", jobs.return_much, "TypeError: .* more than 64 MiB", DONE, "OverflowError", 500 * 10**6),
    _raises("unpicklable exception", jobs.raise_unpicklable, r"_StubbornError: <exception str\(\) failed>"),
    _raises("exception of 10 MB", jobs.raise_at_length, "ValueError: planted: long", WAITS, "left out", 10**7),
    RankFault(
        *("lone skip", jobs.skip_alone, FailureKind.SKIPPED, r"^skipped alone \(no such device\)$", WAITS),
    ),
    RankFault(
        *("collectives of different shapes", jobs.mismatched_shapes, FailureKind.SIGNAL, "^was killed by SIGABRT"),
        *(LOST, r"Received data size doesn't match expected size"),
        rank=0,
    ),
    RankFault(
        *("collectives in different order", jobs.mismatched_order, FailureKind.DEADLINE),
        *(r"^missed the deadline .* in (all_gather|broadcast) \(", r"missed the deadline .* in (all_gather|broadcast)"),
        rank=None,
        deadline_s=NO_MORE_S,
    ),
    _raises("flood of output", exhaustion.flood, "ValueError: planted: after a flood", WAITS, "", 2 * MIB),
    _hangs("flood of output without end", exhaustion.flood_forever, r"flood_forever \("),
    _raises("full temporary folder", exhaustion.fill_the_folder, r"OSError: \[Errno 27\] File too large"),
    _raises("full disk under its output", exhaustion.fail_to_print, r"OSError: \[Errno 27\] File too large"),
    _hangs("full disk under its stack", exhaustion.write_nothing_more, SILENT),
    _raises("no shared memory left", exhaustion.fail_to_share, "RuntimeError: unable to resize file"),
    _dies(
        "shared memory that gives way",
        exhaustion.touch_missing_memory,
        "was killed by SIGBUS",
        "in touch_missing_memory",
    ),
    _raises("no file descriptors left", exhaustion.run_out_of_files, r"OSError: \[Errno 24\] Too many open files"),
)


@dataclass(frozen=True)
class LeftRunning:
    """A job that goes well and leaves something running: it passes, and the next test does not meet what it left."""

    name: str
    job: Callable[[], int]

    def __str__(self) -> str:
        return self.name


LEFT_RUNNING = (
    LeftRunning("process left running", jobs.leave_a_process),
    LeftRunning("fork left running", jobs.leave_a_fork),
    LeftRunning("thread left running", jobs.leave_a_thread),
)
