"""Every group of sharded parameters takes its step with the first group's learning rate, as one flat parameter would.

Must fail: ``correctness_tests/test_parameter_settings.py::test_each_parameter_keeps_its_own_rate_and_decay``.
"""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"rank \d of 2, after 3 steps, .*lost a setting of its own", unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""

    def merge(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            if isinstance(group["params"][0], DTensor):
                group["lr"] = optimizer.param_groups[0]["lr"]

    register_optimizer_step_pre_hook(merge)
