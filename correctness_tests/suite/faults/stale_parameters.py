"""FSDP2 goes on computing with the parameters of its first gather: the optimizer's updates never reach the forward.

Must fail:
``correctness_tests/test_gradients_match_ddp.py::test_whole_number_gradients_are_ddps_bit_for_bit``,
from step 1 on: a check of one step does not see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from correctness_tests.suite.faults import Caught, moves
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"are off\. Worst: rank \d, step [1-3]",
    {"world_size": 2, "strategy": "fsdp2"},
    rehearsal=moves("fsdp2:ddp", "resident", r"REGRESSED", r"ddp unchanged.*fsdp2 \+\d"),
)


def apply() -> None:
    """Plant the fault in this rank."""
    first: dict[int, list[torch.Tensor]] = {}

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def copy_out(result: Any, parameters: list[Any], group: Any) -> None:
            original(result, parameters, group)
            for parameter in parameters:
                gathered = parameter.all_gather_outputs
                kept = first.setdefault(id(parameter), [t.clone() for t in gathered])
                for output, old in zip(gathered, kept, strict=True):
                    output.data.copy_(old)  # .data: autograd is not to notice

        return copy_out

    patch_fully_shard("all_gather_copy_out", replace)
