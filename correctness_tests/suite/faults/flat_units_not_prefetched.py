"""FSDP1 no longer prefetches the block before in backward: a lower peak, and a gather that nothing hides.

Must fail: ``perf_tests/test_phase_accounts.py::test_every_phase_is_the_ledgers``.
"""

from __future__ import annotations

from typing import Any

from torch.distributed.fsdp import FullyShardedDataParallel

from correctness_tests.suite.faults import WITHIN_THE_GATE, Caught

CAUGHT = Caught(
    r"peak_backward, fsdp1 of even.*difference -.*gathered units: measured",
    {"size": "even", "world_size": 4, "strategy": "fsdp1"},
    unseen=WITHIN_THE_GATE,
)


def apply() -> None:
    """Plant the fault in this process."""
    original = FullyShardedDataParallel.__init__

    def init(self: FullyShardedDataParallel, *args: Any, **options: Any) -> None:
        original(self, *args, **(options | {"backward_prefetch": None}))

    FullyShardedDataParallel.__init__ = init  # type: ignore[method-assign]
