"""The optimizer's state is kept whole on every rank: the numbers are right, the memory is N times what it was.

Must fail: ``correctness_tests/test_optimizer_state.py::test_state_is_the_plain_models_rows``.
"""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor import DTensor, Replicate
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from correctness_tests.suite.faults import Caught, moves

CAUGHT = Caught(
    r"momentum_buffer of .*not placed as the parameter is",
    {"optimizer_name": "momentum"},
    rehearsal=moves("fsdp2:ddp", "resident", r"REGRESSED", r"ddp unchanged.*fsdp2 \+\d"),
)


def apply() -> None:
    """Plant the fault in this rank."""

    def replicate(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for state in optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, DTensor) and value.dim():
                    state[key] = value.redistribute(placements=[Replicate()])

    register_optimizer_step_post_hook(replicate)
