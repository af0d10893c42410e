"""The optimizer dispatches one operator more in every step.

Must fail: ``perf_tests/test_host_budget.py::test_host_work_is_the_accepted``.
"""

from __future__ import annotations

from typing import Any

import torch

from correctness_tests.suite.faults import HOST, Caught
from fixtures.session.budgets import Budgeted

CAUGHT = Caught(
    r"REGRESSED mlp/ddp/host.*optimizer operators .*aten.tan.default 0 -> 1",
    {"wanted": Budgeted("mlp", "ddp", "host")},
    unseen=HOST,
)

ZERO = torch.zeros(1)


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        ZERO.tan()
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
