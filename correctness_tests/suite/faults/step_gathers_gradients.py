"""The optimizer gathers each gradient before its step: the step is right, and no longer free.

Must fail: ``correctness_tests/test_row_wise_work.py::test_a_row_normalised_step_moves_nothing``.
"""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from correctness_tests.suite.faults import Caught, sends

CAUGHT = Caught(r"the optimizer's step issued \['all-gather'", rehearsal=sends("fsdp2", r"52 all-gather float32"))


def apply() -> None:
    """Plant the fault in this rank."""

    def gather(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if isinstance(parameter.grad, DTensor):
                    parameter.grad.full_tensor()

    register_optimizer_step_pre_hook(gather)
