"""What the tests of ``fixtures/ranks`` run on ranks. Functions of a module of its own: a rank imports it by name."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import torch
import torch.distributed as dist

from fixtures.errors import UsageError
from fixtures.ranks import SkipRankError, current

FOREVER_S = 600.0
"""Longer than any deadline here; a rank that sleeps for it is killed."""

_held: list[Any] = []
"""Keeps what a rank is to hold until its end."""


def all_reduce(value: float = 1.0) -> float:
    """Sum of ``value + rank`` over the ranks."""
    total = torch.tensor(value + dist.get_rank())
    dist.all_reduce(total)
    return float(total)


def who_am_i() -> tuple[int, int, str]:
    """What the rank's context says."""
    return current().rank, current().world_size, current().platform.key


def scaled(tensor: torch.Tensor, *, factor: int) -> dict[str, torch.Tensor]:
    """A tensor that went through pytest and back."""
    return {"scaled": tensor * factor * (dist.get_rank() + 1)}


def surroundings() -> dict[str, Any]:
    """What the process is made of."""
    return {
        "pid": os.getpid(),
        "group": os.getpgid(0),
        "threads": torch.get_num_threads(),
        "omp": os.environ["OMP_NUM_THREADS"],
        "directory": os.getcwd(),
        "variable": os.environ.get("SHARDGATE_TEST_VARIABLE"),
    }


def raise_before_collective(culprit: int) -> None:
    """One rank raises; the others wait for it in a collective."""
    if dist.get_rank() == culprit:
        print("last words on stdout")
        raise ValueError("planted: bad shard")
    dist.all_reduce(torch.ones(1))


def raise_on_every_rank() -> None:
    """Each rank raises, rank 1 first."""
    time.sleep(0.0 if dist.get_rank() == 1 else 0.2)
    raise ValueError(f"planted on {dist.get_rank()}")


def hang(culprit: int) -> None:
    """One rank sleeps; the others wait for it in a collective."""
    if dist.get_rank() == culprit:
        time.sleep(FOREVER_S)
    dist.all_reduce(torch.ones(1))


def hang_in_c(culprit: int) -> None:
    """One rank sleeps in C and keeps the interpreter's lock; the others wait for it in a collective."""
    if dist.get_rank() == culprit:
        ctypes.PyDLL(None).sleep(int(FOREVER_S))
    dist.all_reduce(torch.ones(1))


def progress_often(times: int, pause_s: float) -> str:
    """Sleep and say so, several times."""
    for step in range(times):
        time.sleep(pause_s)
        if current().rank == 0:
            current().progress(f"step {step}")
    return "done"


def skip(ranks: list[int], reason: str = "no such device") -> str:
    """Some ranks skip; the others return."""
    if dist.get_rank() in ranks:
        raise SkipRankError(reason)
    return "ran"


def skip_with_pytest() -> None:
    """Every rank skips the way a test does."""
    import pytest

    pytest.skip("asked for by pytest.skip")


def raise_usage_error() -> None:
    """An error that the user can mend."""
    raise UsageError("no workload called 'gtp2': did you mean 'gpt2'?")


def leave_the_group() -> None:
    """A job that does not leave the process group as it found it."""
    dist.destroy_process_group()


def start_a_child() -> int:
    """A process that the rank starts and forgets; returns its pid."""
    return subprocess.Popen(["sleep", str(FOREVER_S)], stdout=subprocess.DEVNULL).pid


DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.write(1, str(os.getpid()).encode())
os.close(1)
time.sleep(600)
"""
"""A program that leaves its parent, its session and its process group, as daemons do, and says its pid."""


def hold_shared_memory() -> str:
    """Keep a segment of Python's shared memory; its name."""
    segment = SharedMemory(create=True, size=4096)
    _held.append(segment)
    return segment.name


def start_daemons() -> tuple[int, int]:
    """Two processes that leave the rank's process group: a child in a session of its own, and a daemon; their pids."""
    child = subprocess.Popen(["sleep", str(FOREVER_S)], stdout=subprocess.DEVNULL, start_new_session=True)
    said = subprocess.run([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, check=True).stdout
    return child.pid, int(said)


def stop_under_the_memory_meter(culprit: int) -> None:
    """One rank stops (SIGSTOP); the others wait for it in a collective that the memory meter waits for."""
    from fixtures.meters.memory import memory_meter

    with memory_meter(current().platform).watch():
        if dist.get_rank() == culprit:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(torch.ones(1))


def listening_addresses() -> list[str]:
    """Addresses on which this rank accepts TCP connections, after it has talked to its peers."""
    import psutil

    dist.all_reduce(torch.ones(1))
    connections = psutil.Process().net_connections(kind="tcp")
    return [connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN]


def listen_everywhere() -> list[str]:
    """The same with a listener that is open to the network, which the test of loopback must see."""
    with socket.create_server(("0.0.0.0", 0)):
        return listening_addresses()


def mark_patched() -> None:
    """A rank patch."""
    os.environ["SHARDGATE_TEST_PATCHED"] = f"before the first job on {dist.get_rank()}"


PLANTED: list[int] = []


def plant() -> None:
    """A rank patch that needs no process group: it is noted in each process that it is applied in."""
    PLANTED.append(os.getpid())


def is_planted() -> bool:
    """Whether it was applied in this process."""
    return PLANTED[-1:] == [os.getpid()]


def read_patch() -> str:
    """What the rank patch left."""
    return os.environ["SHARDGATE_TEST_PATCHED"]


def broken_patch() -> None:
    """A rank patch that fails."""
    raise AttributeError("torch has no such function any more")


def fully_shard_imports() -> int:
    """How many modules the first FSDP2 step of a fresh rank still has to import."""
    import sys

    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    before = set(sys.modules)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return len(set(sys.modules) - before)
