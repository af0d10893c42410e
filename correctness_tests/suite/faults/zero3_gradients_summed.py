"""DeepSpeed's stage 3 sums gradients over ranks and does not divide by N.

Must fail: ``correctness_tests/test_zero3.py::test_whole_number_gradients_are_ddps_bit_for_bit``.
"""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(
    r"zero3 against ddp, whole_number_mlp, cpu-gloo-2 .*are off\. Worst",
    {"world_size": 2, "strategy": "zero3"},
    unseen=NUMBERS,
)


def apply() -> None:
    """Plant the fault in this process."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    from deepspeed.runtime.zero import stage3

    original = stage3.reduce_scatter_coalesced

    def summed(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return [part.mul_(dist.get_world_size()) for part in original(tensors, *args, **kwargs)]

    stage3.reduce_scatter_coalesced = summed
