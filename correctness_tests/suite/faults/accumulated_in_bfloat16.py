"""FSDP2 without sync accumulates micro-batches in bfloat16, and casts only what it reduces.

Must fail:
``correctness_tests/test_mixed_precision.py::test_cancelling_values_leave_the_one``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from correctness_tests.test_mixed_precision import sum_over_micro_batches
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"sum_over_micro_batches: gradients", {"added": sum_over_micro_batches}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda parameter: None

    patch_fully_shard("to_accumulated_gradient", replace)
