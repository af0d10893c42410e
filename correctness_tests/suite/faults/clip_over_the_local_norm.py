"""Gradients are clipped by the norm of each rank's own shard: every rank clips by another factor.

Must fail:
``correctness_tests/test_gradient_clipping.py::test_clipped_gradients_are_those_of_one_process``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(
    r"clipped gradients, plain, cpu-gloo-2: .*are off", {"world_size": 2, "name": "plain"}, unseen=NOT_TRAINED
)


def apply() -> None:
    """Plant the fault in this process."""
    original = torch.nn.utils.clip_grad_norm_

    def clip_grad_norm_(parameters: Iterable[nn.Parameter], max_norm: float, **kwargs: Any) -> torch.Tensor:
        parameters = list(parameters)
        grads = [p.grad for p in parameters if isinstance(p.grad, DTensor)]
        local = torch.nn.utils.get_total_norm([grad.to_local() for grad in grads])
        for grad in grads:
            grad.to_local().mul_(max_norm / local)
        return original(parameters, float("inf"), **kwargs)

    torch.nn.utils.clip_grad_norm_ = clip_grad_norm_  # type: ignore[assignment]
