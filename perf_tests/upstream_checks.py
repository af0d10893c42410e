"""PyTorch's own two multi-rank harnesses around ``rank_check.py``, for ``bench_ranks.py`` to measure against.

A module of its own, since importing it imports PyTorch's test suite, which our ranks must not pay for.
"""

from __future__ import annotations

import os

import torch.distributed as dist

from fixtures.torch_internals import upstream_harnesses
from perf_tests.rank_check import check_fsdp2_against_ddp

SpawnBase, PoolBase = upstream_harnesses()


class SpawnCheck(SpawnBase):  # type: ignore[misc, valid-type]  # its module is not typed
    """Upstream's first harness: the ranks of every test are spawned."""

    @property
    def world_size(self) -> int:
        """From the environment: a spawned rank imports this class anew."""
        return int(os.environ["SHARDGATE_BENCH_WORLD_SIZE"])

    def setUp(self) -> None:
        """Spawn the ranks."""
        super().setUp()
        self._spawn_processes()

    def test_check(self) -> None:
        """The check; on a rank."""
        store = dist.FileStore(self.file_name, self.world_size)  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        check_fsdp2_against_ddp()


class PoolCheck(PoolBase):  # type: ignore[misc, valid-type]
    """Upstream's second harness: the ranks are spawned once for a class of tests."""

    @classmethod
    def backend_str(cls) -> str:
        """For init_process_group."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """Also where there is an accelerator."""
        return "cpu"

    def test_check(self) -> None:
        """The check; on a rank."""
        check_fsdp2_against_ddp()
