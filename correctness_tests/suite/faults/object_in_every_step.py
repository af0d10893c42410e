"""Every optimizer step broadcasts a Python object: a size, then pickled bytes, and all ranks wait for one.

Must fail: ``perf_tests/test_traffic_between_arms.py::test_a_steady_step_talks_of_nothing_but_tensors``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from correctness_tests.suite.faults import Caught, sends

CAUGHT = Caught(
    r"sends \{.*broadcast uint8", {"arm": "ddp", "workload": "mlp"}, rehearsal=sends("ddp", r"broadcast uint8")
)


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        dist.broadcast_object_list([{"learning rate": 3e-4}], src=0)
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
