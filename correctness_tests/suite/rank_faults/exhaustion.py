"""More of the faults: what a rank needs of the machine is used up. Memory, disk, shared memory, file descriptors."""

from __future__ import annotations

import mmap
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch

from correctness_tests.suite.rank_faults.jobs import FOREVER_S, am_culprit, meet, strike

_kept: list[Any] = []
"""Keeps what a fault needs to last."""


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 1024**2, resource.RLIM_INFINITY))


def run_out_of_memory(notes: str) -> None:
    """One rank may take 64 MiB more and asks for all the small pieces that it can get."""
    if am_culprit(notes):
        _limit_memory()
        while True:
            _kept.append(bytearray(1024**2))
    meet()


def run_out_of_tensor_memory(notes: str) -> None:
    """One rank may take 64 MiB more and asks torch for a GiB."""
    if am_culprit(notes):
        _limit_memory()
        _kept.append(torch.ones(1024**3, dtype=torch.uint8))
    meet()


def flood(notes: str, size: int) -> None:
    """One rank writes that many bytes to its standard output, then raises."""
    if am_culprit(notes):
        line = "x" * 1023 + "\n"
        for _ in range(size // 1024):
            sys.stdout.write(line)
        strike(notes)
        raise ValueError("planted: after a flood")
    meet()


def flood_forever(notes: str) -> None:
    """One rank writes to its standard output for ever."""
    meet()
    if am_culprit(notes):
        line = b"x" * 65535 + b"\n"
        while True:
            os.write(1, line)
    meet()


def fill_the_folder(notes: str) -> None:
    """One rank writes to its temporary folder until there is no room; 1 MiB is all it has, for all of its files."""
    if am_culprit(notes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024**2, resource.RLIM_INFINITY))
        with open(Path(notes, "large"), "wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))
    meet()


def write_nothing_more(notes: str) -> None:
    """One rank can't write another byte to any file, its output and its stack included, and hangs."""
    meet()
    if am_culprit(notes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        time.sleep(FOREVER_S)
    meet()


def fail_to_print(notes: str) -> None:
    """One rank can't write another byte to any file, and prints."""
    if am_culprit(notes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        print("lost")
    meet()


def fail_to_share(notes: str) -> None:
    """One rank finds no room for a tensor in shared memory."""
    if am_culprit(notes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        _kept.append(torch.zeros(10**6).share_memory_())  # type: ignore[no-untyped-call]
    meet()


def touch_missing_memory(notes: str) -> None:
    """One rank touches a shared page that isn't there, as it happens when shared memory is full: SIGBUS."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if am_culprit(notes):
        fd = os.memfd_create("full")
        os.ftruncate(fd, 8192)
        view = mmap.mmap(fd, 8192)
        os.ftruncate(fd, 0)
        view[4096] = 1
    meet()


def run_out_of_files(notes: str) -> None:
    """One rank opens files until there are none left, keeps them, and raises."""
    if am_culprit(notes):
        soft = 64 + len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        while True:
            _kept.append(os.open(os.devnull, os.O_RDONLY))
    meet()
