"""Every step leaves a tensor in a reference cycle: its memory waits for the garbage collector.

Must fail: ``perf_tests/test_host_growth.py::test_nothing_grows``.
"""

from __future__ import annotations

from typing import Any

import torch

from correctness_tests.suite.faults import Caught

CAUGHT = Caught(
    r"20 steps left \+20 tensors and \+20 storages",
    {"strategy": "ddp"},
    unseen="the meters collect garbage before they read what is resident, so the tensors are gone by then",
)


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        cycle: list[Any] = [torch.zeros(1024)]
        cycle.append(cycle)
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
