"""What pytest, its fork server and its ranks hold at the end of a round: memory, descriptors, threads, files, time."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
Reading = dict[str, float]
"""Figures by name; the unit is the name's last word: ``KiB``, ``s``, or what is counted."""


def read(servers: Iterable[int], pools: Mapping[str, list[int]], begun: tuple[float, float]) -> Reading:
    """One reading, after a collection. ``servers``: pids of the fork servers; ``pools``: pids of each pool's ranks;
    ``begun``: what ``clocks`` said when the round began."""
    me, reading = psutil.Process(), {"pytest: objects": float(settle())}
    reading |= {f"pytest: {name}": value for name, value in _process(me).items()}
    for kind, pids in {"fork server": list(servers), **pools}.items():
        reading |= {f"{kind}: {name}": value for name, value in _together(pids).items()}
    temporary = Path(tempfile.gettempdir())
    files = [entry for entry in temporary.rglob("*") if not _is_cache(entry.relative_to(temporary))]
    reading["temporary files"] = len(files)
    reading["shared memory files"] = sum(1 for _ in SHARED_MEMORY.iterdir()) if SHARED_MEMORY.is_dir() else 0
    reading["child processes"] = len(me.children(recursive=True))
    seconds, cpu = clocks()
    return reading | {"wall s": seconds - begun[0], "CPU s": cpu - begun[1]}


def settle() -> int:
    """On a rank, and in pytest: give back what is free, so that what is read next is held; the number of objects."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # of another C library
        ctypes.CDLL(None).malloc_trim(0)
    return len(gc.get_objects())


def clocks() -> tuple[float, float]:
    """Now: seconds of the clock, and CPU seconds of this process and all its descendants, the ended ones included."""
    cpu = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            cpu += sum(process.cpu_times()[:4])  # its own and its ended children's, user and system
    return time.monotonic(), cpu


def _process(process: psutil.Process) -> Reading:
    return {
        "memory KiB": _anonymous_kib(process.pid),
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
    }


def _anonymous_kib(pid: int) -> float:
    """What it has allocated, pages that it shares with the process it was forked from included.

    Not its own pages alone: those become more for as long as it, or the other, writes to what they share.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return float(line.split()[1])
    return 0.0  # a zombie has none


def _together(pids: list[int]) -> Reading:
    total: Reading = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):
            for name, value in _process(psutil.Process(pid)).items():
                total[name] = total.get(name, 0) + value
    return total


def _is_cache(path: Path) -> bool:
    """torch's own, which is meant to stay, and pytest's folders of tests, of which it keeps the expected failures'.

    The path is relative to where temporary files are.
    """
    return any(part.startswith(("torchinductor_", "pytest-of-")) for part in path.parts)
