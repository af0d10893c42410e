"""What leaks a little in every round of a soak, for its tests: on a rank, or in pytest itself."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any

import torch

_kept: list[Any] = []
ENDED = threading.Event()
"""Ends the threads that were left on purpose."""


def keep_a_descriptor() -> None:
    """On a rank: one more open file."""
    _kept.append(os.open(os.devnull, os.O_RDONLY))


def keep_a_tensor() -> None:
    """On a rank: 1 MiB more, written to."""
    _kept.append(torch.ones(2**18))


def leave_a_file() -> None:
    """In pytest: one more temporary file."""
    os.close(tempfile.mkstemp(prefix="left-")[0])


def leave_a_thread() -> None:
    """In pytest: one more thread."""
    threading.Thread(target=ENDED.wait, name="left", daemon=True).start()


def leave_nothing() -> None:
    """On a rank: a small tensor, gone when the job is done; the C library keeps a large one's room for some jobs."""
    torch.ones(8).sum()
