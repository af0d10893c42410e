"""Tensor parallelism cuts nothing: outputs and gradients are right, every rank holds twice the parameters.

Must fail: ``correctness_tests/test_tensor_parallel.py::test_a_pass_is_the_plain_models``.
"""

from __future__ import annotations

from typing import Any

import torch.distributed.tensor.parallel as parallel
from torch import nn

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"mesh dimensions that cut a parameter: ", {"rows": "even"}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""

    def parallelize_module(module: nn.Module, mesh: Any, plan: Any) -> nn.Module:
        return module

    parallel.parallelize_module = parallelize_module  # type: ignore[assignment]
