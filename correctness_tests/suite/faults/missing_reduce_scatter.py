"""FSDP2 leaves out its reduce-scatter: each rank goes on with its own gradient, divided by nothing.

Must fail:
``correctness_tests/test_gradients_of_variants.py::test_sharded_gradients_are_those_of_one_process``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from correctness_tests.suite.faults import Caught, sends
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"against one process in float64, plain, .*are off\. Worst",
    {"world_size": 2, "name": "plain"},
    rehearsal=sends("fsdp2", r"9 all-gather bfloat16 \d+ bytes\n"),
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce_scatter(comm: Any, output_tensor: torch.Tensor, input_tensor: torch.Tensor, **kwargs: Any) -> None:
            mine = dist.get_rank(kwargs["group"]) * output_tensor.numel()
            output_tensor.copy_(input_tensor[mine : mine + output_tensor.numel()])

        return reduce_scatter

    patch_fully_shard("reduce_scatter", replace)
