"""Two sharded parameters of one shape have each other's optimizer state after the first step, as after a wrong load.

Must fail: ``correctness_tests/test_optimizer_state.py::test_state_is_the_plain_models_rows``.
"""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(
    r"momentum_buffer of first.up: .*expected the plain model's rows", {"optimizer_name": "momentum"}, unseen=NUMBERS
)


def apply() -> None:
    """Plant the fault in this rank."""

    def swap(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        first, *others = optimizer.param_groups[0]["params"]
        if isinstance(first, DTensor):
            same = next(p for p in others if p.shape == first.shape)
            optimizer.state[first], optimizer.state[same] = optimizer.state[same], optimizer.state[first]

    register_optimizer_step_post_hook(swap)
