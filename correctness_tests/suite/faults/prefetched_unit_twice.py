"""FSDP2's backward prefetches two blocks ahead where one was asked for: one gathered unit more at the peak.

Must fail: ``perf_tests/test_phase_accounts.py::test_every_phase_is_the_ledgers``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import WITHIN_THE_GATE, Caught
from fixtures.torch_internals import patch_fully_shard, prefetch

CAUGHT = Caught(
    r"peak_backward, fsdp2 of even.*difference \+.*all-gather outputs: measured.*of blocks.0",
    {"size": "even", "world_size": 4, "strategy": "fsdp2"},
    unseen=WITHIN_THE_GATE,
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward_prefetch(group: Any) -> None:
            order = group.comm_ctx.post_forward_order
            index = order.index(group)
            original(group)
            if index > 1:
                prefetch(order[index - 2])

        return backward_prefetch

    patch_fully_shard("backward_prefetch", replace)
