"""FSDP2's optimizer keeps the gradients of its first step: the same bytes too many after every step, growing never.

Must fail: ``perf_tests/test_phase_accounts.py::test_live_bytes_after_every_step_are_the_ledgers``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import Caught, moves

CAUGHT = Caught(
    r"live bytes, fsdp2 of odd.*differences \[(\d+), \1\]",
    {"strategy": "fsdp2"},
    rehearsal=moves("fsdp2:ddp", "resident", r"REGRESSED", r"ddp unchanged.*fsdp2 \+\d"),
)


def apply() -> None:
    """Plant the fault in this process."""
    original = torch.optim.AdamW.step

    def step(self: Any, *args: Any, **options: Any) -> Any:
        parameters = self.param_groups[0]["params"]
        if isinstance(parameters[0], DTensor) and not hasattr(self, "first"):
            self.first = [parameter.grad for parameter in parameters]
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[method-assign]
