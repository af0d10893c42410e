"""The faults themselves: what runs on the two ranks of a trial. Each writes down when it strikes, and then strikes.

``notes`` is the folder of a trial; ``strike(notes)`` is the last thing a culprit does in good health. Rank 1 is the
culprit wherever there is one, so that no fault is blamed on the lowest rank by luck.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fixtures.ranks import SkipRankError, current, worker
from fixtures.ranks.channel import HEADER

FOREVER_S = 600
"""Longer than any deadline here; a rank that sleeps for it is killed."""

SEGMENT_NOTE = "segment-"
"""Begins the name of a note; the name of a segment of shared memory, which must not stay, ends it."""


def strike(notes: str) -> None:
    """Write down that this rank's fault comes now (s on the system's monotonic clock); deadlines count from here."""
    current().progress("strikes")
    Path(notes, f"struck-{dist.get_rank()}").write_text(repr(time.monotonic()))


def am_culprit(notes: str) -> bool:
    """Whether this rank is the one with the fault; if so, it is written down that it strikes."""
    if dist.get_rank() == 1:
        strike(notes)
        return True
    return False


def meet() -> None:
    """A collective that all ranks take part in, unless something is wrong."""
    dist.all_reduce(torch.ones(1))


def raise_before(notes: str) -> None:
    """One rank raises before a collective in which the other waits."""
    if am_culprit(notes):
        raise ValueError("planted: before")
    meet()


def raise_inside(notes: str) -> None:
    """One rank's own collective raises, in torch's code; the other waits in it."""
    mine = torch.ones(1)
    dist.all_gather([torch.ones(1)] if am_culprit(notes) else [torch.ones(1), torch.ones(1)], mine)


def raise_after(notes: str) -> None:
    """One rank raises after a collective that went well; the other waits in the next one."""
    meet()
    if am_culprit(notes):
        raise ValueError("planted: after")
    meet()


def raise_twice(notes: str) -> None:
    """Both ranks raise as nearly at once as two processes can."""
    dist.barrier()
    strike(notes)
    raise ValueError(f"planted: on {dist.get_rank()}")


def raise_and_die(notes: str) -> None:
    """One rank raises while the other kills itself."""
    dist.barrier()
    strike(notes)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("planted: beside a death")


def exit_by_exception(notes: str) -> None:
    """One rank calls sys.exit, as a script would."""
    if am_culprit(notes):
        sys.exit(3)
    meet()


def die_of(notes: str, number: int) -> None:
    """One rank gets a signal that its own code sent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    meet()
    if am_culprit(notes):
        os.kill(os.getpid(), number)
        time.sleep(FOREVER_S)
    meet()


def die_with_shared_memory(notes: str) -> None:
    """Both ranks hold shared memory of Python's, one is killed and so removes none; each name is written down."""
    meet()
    segment = SharedMemory(create=True, size=4096)
    Path(notes, f"{SEGMENT_NOTE}{segment.name}").touch()
    meet()
    if am_culprit(notes):
        os.kill(os.getpid(), signal.SIGKILL)
    meet()


def segfault(notes: str) -> None:
    """One rank reads address 0."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if am_culprit(notes):
        ctypes.string_at(0)
    meet()


def exit_silently(notes: str, status: int) -> None:
    """One rank leaves without a word; the other waits for it."""
    if am_culprit(notes):
        os._exit(status)
    meet()


def exit_slowly(notes: str, status: int) -> None:
    """One rank's sockets are closed 2 s before it is gone; the other reports a lost peer at once."""
    meet()
    if am_culprit(notes):
        dist.destroy_process_group()
        time.sleep(2)
        os._exit(status)
    meet()


def return_unpicklable(notes: str) -> Any:
    """One rank returns what can't be sent."""
    return (lambda: None) if am_culprit(notes) else 1


class _OnlyThere:
    """Can be pickled, and not loaded where pytest is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_on_ranks_only, ()


def _load_on_ranks_only() -> None:
    raise LookupError("planted: known on ranks only")


def return_unloadable(notes: str) -> Any:
    """One rank returns what pytest can't load."""
    return _OnlyThere() if am_culprit(notes) else 1


class _StubbornError(Exception):
    """Can't be pickled, and not even printed."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        raise RuntimeError("planted: no text")


def raise_unpicklable(notes: str) -> None:
    """One rank raises an exception that can't be sent, or printed."""
    if am_culprit(notes):
        raise _StubbornError
    meet()


def raise_at_length(notes: str, size: int) -> None:
    """One rank raises an exception whose text is very long."""
    if am_culprit(notes):
        raise ValueError(f"planted: {'long ' * (size // 5)}")
    meet()


def return_much(notes: str, size: int) -> torch.Tensor:
    """One rank returns a tensor of so many bytes."""
    return torch.zeros(size if am_culprit(notes) else 1, dtype=torch.uint8)


def stop(notes: str) -> None:
    """One rank is stopped; the other waits for it in a collective."""
    meet()
    if am_culprit(notes):
        os.kill(os.getpid(), signal.SIGSTOP)
    meet()


def stop_while_sending(notes: str) -> None:
    """One rank is stopped in the middle of a message to pytest."""
    if am_culprit(notes):
        assert worker._this is not None
        worker._this.connection._socket.sendall(HEADER.pack(1000) + b"begun")
        os.kill(os.getpid(), signal.SIGSTOP)


def hang(notes: str) -> None:
    """One rank sleeps; the other waits for it in a collective."""
    meet()
    if am_culprit(notes):
        time.sleep(FOREVER_S)
    meet()


def hang_in_c(notes: str) -> None:
    """One rank sleeps in C and keeps the interpreter's lock; the other waits for it in a collective."""
    meet()
    if am_culprit(notes):
        ctypes.PyDLL(None).sleep(FOREVER_S)
    meet()


def hang_alone(notes: str) -> None:
    """One rank waits in a collective that the other, which has returned, never joins."""
    if am_culprit(notes):
        meet()


def skip_alone(notes: str) -> None:
    """One rank skips; the other waits for it in a collective."""
    if am_culprit(notes):
        raise SkipRankError("no such device")
    meet()


def mismatched_shapes(notes: str) -> None:
    """The ranks' tensors differ in size."""
    strike(notes)
    dist.all_reduce(torch.ones(1 + 1000 * dist.get_rank()))


def mismatched_order(notes: str) -> None:
    """Two collectives in different order on the two ranks."""
    meet()
    strike(notes)
    gathered, mine = [torch.zeros(1000), torch.zeros(1000)], torch.ones(1000)
    for step in (0, 1) if dist.get_rank() == 0 else (1, 0):
        if step == 0:
            dist.all_gather(gathered, mine)
        else:
            dist.broadcast(torch.ones(7), src=0)


def leave_a_process() -> int:
    """Both ranks leave a process running; its pid."""
    return subprocess.Popen(["sleep", str(FOREVER_S)], start_new_session=True).pid


def leave_a_fork() -> int:
    """Both ranks leave a fork of themselves running; its pid."""
    pid = os.fork()
    if pid == 0:
        time.sleep(FOREVER_S)
        os._exit(0)
    return pid


def leave_a_thread() -> int:
    """Both ranks leave a thread running; its number."""
    thread = threading.Thread(target=time.sleep, args=(FOREVER_S,), name="left-running")
    thread.start()
    return thread.native_id or 0


def sum_of_ones() -> float:
    """A job in good health: N."""
    total = torch.ones(1)
    dist.all_reduce(total)
    return total.item()
