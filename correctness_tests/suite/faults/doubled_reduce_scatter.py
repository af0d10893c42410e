"""FSDP2 issues every reduce-scatter twice: the gradients are right, the bytes are not.

Must fail:
``correctness_tests/test_choreography.py::test_each_unit_reduces_its_gradients_once``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from correctness_tests.suite.faults import Caught, sends
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"unit \S+ is reduced once", {"model": "flat"}, rehearsal=sends("fsdp2", r"10 reduce-scatter float32"))


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce_scatter(comm: Any, output_tensor: torch.Tensor, **kwargs: Any) -> Any:
            original(comm, output_tensor=torch.empty_like(output_tensor), **kwargs)
            return original(comm, output_tensor=output_tensor, **kwargs)

        return reduce_scatter

    patch_fully_shard("reduce_scatter", replace)
