"""Every step appends a number to a list of a module: 8 bytes that nobody ever reads.

Must fail: ``perf_tests/test_host_growth.py::test_nothing_grows``.
"""

from __future__ import annotations

from typing import Any

import torch

from correctness_tests.suite.faults import HOST, Caught

CAUGHT = Caught(r"left this behind.*log_of_every_step.KEPT': 20", {"strategy": "ddp"}, unseen=HOST)

KEPT: list[float] = [1.0]


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        KEPT.append(self.param_groups[0]["lr"])
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
