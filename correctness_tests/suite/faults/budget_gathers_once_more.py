"""The optimizer gathers 256 bytes more in every step: no ledger is asked of a model of one's own, a budget is.

Must fail: ``perf_tests/test_traffic_budget.py::test_messages_are_the_accepted``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from correctness_tests.suite.faults import Caught, sends
from fixtures.session.budgets import Budgeted

CAUGHT = Caught(
    r"REGRESSED mlp/ddp/traffic.*\+ +2 optimizer all-gather bfloat16 256",
    {"wanted": Budgeted("mlp", "ddp", "traffic")},
    rehearsal=sends("ddp", r"1 all-gather bfloat16 256"),
)


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        mine = torch.zeros(128 // dist.get_world_size(), dtype=torch.bfloat16)
        dist.all_gather_into_tensor(torch.zeros(128, dtype=torch.bfloat16), mine)
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
