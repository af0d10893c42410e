"""Two jobs on one machine never join each other: no port is agreed on beforehand (pytorch#194376)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from fixtures.platforms import Platform
from fixtures.ranks.pool import RankPool

pytestmark = pytest.mark.cpu


def everyone() -> list[int]:
    """On a rank: the process ids of all ranks of its group."""
    pids = torch.empty(dist.get_world_size(), dtype=torch.int64)
    dist.all_gather_into_tensor(pids, torch.tensor([os.getpid()]))
    return pids.tolist()


def test_two_pools_at_once_have_ranks_of_their_own(
    ranks: Callable[[int], RankPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one address and port in everyone's environment, each of two pools gathers the ids of its own ranks."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    first = ranks(2)
    with RankPool(Platform.cpu(2)) as second:
        for pool in (first, second, first):
            assert pool.run(everyone) == [pool.pids] * 2
