"""Jobs of ranks that fail inside a collective, or leave others in one."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from fixtures.ranks.worker import current


def one_stays_away() -> None:
    """All ranks reduce once; then rank 1 sleeps for ever, and the others wait for it."""
    dist.all_reduce(torch.ones(3))
    if current().rank == 1:
        time.sleep(600)
    dist.all_reduce(torch.ones(5))


def one_runs_out_of_memory() -> None:
    """All ranks reduce once; then rank 1 runs out of memory, and the others wait for it."""
    dist.all_reduce(torch.ones(3))
    if current().rank == 1:
        time.sleep(0.3)  # gloo's worker notes the end of a collective after its caller has gone on
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    dist.all_reduce(torch.ones(5))
