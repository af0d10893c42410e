"""The check whose cost ``bench_ranks.py`` measures; every harness runs this function on its ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH = 64
BLOCKS = 4


def mlp() -> nn.Sequential:
    """Blocks of two linear layers, W -> 4W -> W, the same on every rank."""
    torch.manual_seed(0)
    layers = ((nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(BLOCKS))
    return nn.Sequential(*(nn.Sequential(*block) for block in layers))


def check_fsdp2_against_ddp() -> float:
    """Build the model under FSDP2 and under DDP, take one step of each, compare every gradient.

    Returns the largest difference; AssertionError when it is more than rounding in another order explains.
    """
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    sharded, replicated = mlp(), DistributedDataParallel(mlp())
    for block in sharded:
        fully_shard(block, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    torch.manual_seed(1 + dist.get_rank())
    batch = torch.randn(8, WIDTH)
    worst = 0.0
    for model in (sharded, replicated):
        model(batch).square().mean().backward()
    for ours, theirs in zip(sharded.parameters(), replicated.parameters(), strict=True):
        gradient: Any = ours.grad
        worst = max(worst, float((gradient.full_tensor() - theirs.grad).abs().max()))
    for model in (sharded, replicated):
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    # Loose on purpose: gradients are of order 1e-2, and a wrong averaging factor is off by that much. The derived bound
    # is in correctness_tests/test_gradients_match_ddp.py; here every harness must merely do the same honest work.
    assert worst < 1e-6, f"largest difference of a gradient between FSDP2 and DDP: {worst:g}"
    return worst
