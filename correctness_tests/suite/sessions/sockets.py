"""Watch the sockets of every process of a run: none may reach, or be reached from, beyond this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

ROUND_S = 0.1
"""Between two looks; gloo's listeners live as long as their process group."""

TABLES = ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")
"""Of /proc/PID/net: the sockets of that process's own network namespace (psutil reads those of ours)."""


class SocketWatch:
    """A context manager that looks at a process and its descendants until it is left (Linux only).

    ``beyond`` has every socket that is bound to, or connected with, an address beyond loopback, with the command of its
    process; ``seen`` has all internet sockets that were seen, so that nobody takes blindness for peace.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.beyond: set[str] = set()
        self.seen: set[tuple[int, tuple[str, ...]]] = set()
        self.processes: set[int] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="socket-watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(ROUND_S):
            self.look()

    def look(self) -> None:
        """Take down what is open now."""
        tables: dict[str, list[str]] = {}
        for pid in family(self.pid):
            with contextlib.suppress(OSError, psutil.Error):  # it has ended
                for ends in sockets_of(pid, tables):
                    self._take(pid, ends)
                self.processes.add(pid)

    def _take(self, pid: int, ends: tuple[str, ...]) -> None:
        self.seen.add((pid, ends))
        if not all(is_loopback(end.rpartition(" port ")[0]) for end in ends):
            self.beyond.add(f"{' to '.join(ends)}, of process {pid}: {' '.join(psutil.Process(pid).cmdline())[:200]}")


def family(pid: int) -> Iterator[int]:
    """A process and its descendants; psutil would read every process of the machine for each look."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # that thread, or all of it, has ended
            for child in path.read_text().split():
                yield from family(int(child))


def sockets_of(pid: int, tables: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """The ends of each internet socket that a process has open, as ``ADDRESS port PORT``: its own, and its peer's.

    ``tables`` keeps the lines of /proc/PID/net by network namespace, for the next process of the same look.
    """
    own = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(entry))
    namespace = os.readlink(f"/proc/{pid}/ns/net")
    if namespace not in tables:
        texts = [Path(f"/proc/{pid}/net/{table}").read_text() for table in TABLES]
        tables[namespace] = [line for text in texts for line in text.splitlines()[1:]]
    for line in tables[namespace]:
        cells = line.split()
        if f"socket:[{cells[9]}]" in own:
            yield tuple(end for end in map(_end, cells[1:3]) if not end.endswith(" port 0"))


def _end(cell: str) -> str:
    """From the kernel's notation: words of 32 bits in the machine's order of bytes, in hex, then the port."""
    address, _, port = cell.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return f"{ipaddress.ip_address(struct.pack(f'={len(words)}I', *words))} port {int(port, 16)}"


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine alone, also where IPv4 is written as IPv6; the wildcard is everybody's."""
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)
