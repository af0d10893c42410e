"""FSDP2 reduces gradients in the bfloat16 they were computed in, although its policy says float32.

Must fail:
``correctness_tests/test_reduction_is_float32.py::test_gradients_are_the_float32_mean_of_bfloat16_gradients``.
A float64 oracle would not see it: the bfloat16 compute is as far from it as the reduction is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, sends
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"fsdp2 in mixed precision.*are off\. Worst", rehearsal=sends("fsdp2", r"reduce-scatter bfloat16"))


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def init_dtypes(parameter: Any, policy: Any) -> None:
            original(parameter, policy)
            parameter.reduce_dtype = None  # what fully_shard reads as: reduce in the gradient's own dtype

        return init_dtypes

    patch_fully_shard("init_dtypes", replace)
