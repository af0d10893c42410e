"""The last rank's rows get no update, as tied and uneven weights once did (pytorch/pytorch#176076).

Must fail: ``correctness_tests/test_tied_weights.py::test_every_row_of_a_shared_weight_trains``.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(r"rank \d of 4, .*A row that stays is pytorch/pytorch#176076", {"wrap": "root"}, unseen=NUMBERS)


def apply() -> None:
    """Plant the fault in this rank."""

    def forget(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if dist.get_rank() == dist.get_world_size() - 1:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if isinstance(parameter.grad, DTensor):
                        parameter.grad.to_local().zero_()

    register_optimizer_step_pre_hook(forget)
