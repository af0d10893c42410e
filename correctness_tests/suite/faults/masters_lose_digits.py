"""After each step the masters are rounded to bfloat16 and kept as float32: small updates are lost, dtypes are right.

Must fail: ``correctness_tests/test_parameter_settings.py::test_each_parameter_keeps_its_own_rate_and_decay``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(r"rank \d of 2, after 3 steps, ", unseen=NUMBERS)


def apply() -> None:
    """Plant the fault in this rank."""

    def forget(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if isinstance(parameter, DTensor):
                        shard = parameter.to_local()
                        shard.copy_(shard.bfloat16())

    register_optimizer_step_post_hook(forget)
