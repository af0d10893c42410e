"""Every FSDP2 optimizer step leaves a tensor behind: 4 KiB a step, far less than any gate on a ratio sees.

Must fail: ``perf_tests/test_resident_budget.py::test_resident_bytes_are_the_ledgers``. So must a rehearsal's
``perf_tests/test_no_growth.py``, which needs no ledger.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import Caught, grows

CAUGHT = Caught(
    r"resident, fsdp2 of mlp in mixed.*difference \+",
    {"strategy": "fsdp2", "world_size": 2, "workload": "mlp", "precision": "mixed"},
    rehearsal=grows("fsdp2"),
)
KEPT: list[torch.Tensor] = []


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        if isinstance(self.param_groups[0]["params"][0], DTensor):
            KEPT.append(torch.zeros(1024))
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
