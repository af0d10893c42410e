"""Every optimizer step averages a norm for a log, whatever the strategy: one device alone waits for all others.

Must fail: ``perf_tests/test_traffic_budget.py::test_one_device_alone_sends_nothing``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from correctness_tests.suite.faults import Caught

CAUGHT = Caught(
    r"single of mlp.*kind='all-reduce', dtype='float32', count=1, bytes=4",
    rehearsal={
        "test_collectives.py::test_one_device_alone_sends_nothing[single]": r"^single on .*all-reduce float32 4"
    },
)


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        dist.all_reduce(torch.ones(()))
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
