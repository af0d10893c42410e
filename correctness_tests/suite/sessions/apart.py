"""Run a command apart from the machine: no network but loopback, and a folder that can't be written to (Linux, root).

``python apart.py FOLDER COMMAND...``: in namespaces of its own, with FOLDER read-only. Exit status 77 where this
machine does not allow it. A script by itself: it runs before the suite can be imported.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
SIOCSIFFLAGS, IFF_UP_AND_RUNNING = 0x8914, 0x41
NOT_ALLOWED = 77


def main(folder: str, command: list[str]) -> None:
    """Become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    where = os.fsencode(folder)
    steps: tuple[Callable[[], int], ...] = (
        lambda: libc.unshare(CLONE_NEWNS | CLONE_NEWNET),
        lambda: libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None),
        lambda: libc.mount(where, where, None, MS_BIND, None),
        lambda: libc.mount(None, where, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None),
    )
    if any(step() != 0 for step in steps):
        print(f"apart: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        sys.exit(NOT_ALLOWED)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP_AND_RUNNING))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
