"""FSDP2 gathers its parameters in float32 and casts them after it: the values are right, the bytes double.

Must fail:
``correctness_tests/test_mixed_precision.py::test_parameters_are_gathered_in_bfloat16``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from correctness_tests.suite.faults import Caught, sends
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"all-gathers carry .*float32.*, the policy says bfloat16", rehearsal=sends("fsdp2", r"all-gather float32")
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def all_gather(comm: Any, output_tensor: torch.Tensor, input_tensor: torch.Tensor, **kwargs: Any) -> Any:
            wide = output_tensor.float()
            original(comm, output_tensor=wide, input_tensor=input_tensor.float(), **kwargs)
            output_tensor.copy_(wide)

        return all_gather

    patch_fully_shard("all_gather", replace)
