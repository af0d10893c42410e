"""FSDP2 sums gradients over ranks and forgets to divide by N.

Must fail:
``correctness_tests/test_gradients_match_ddp.py::test_whole_number_gradients_are_ddps_bit_for_bit``.
Adam would hide it: it divides the scale out again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed import ReduceOp

from correctness_tests.suite.faults import NUMBERS, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"whole_number_mlp.*are off\. Worst: rank \d, step \d", {"world_size": 2, "strategy": "fsdp2"}, unseen=NUMBERS
)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: (None, None, ReduceOp.SUM, ReduceOp.SUM)

    patch_fully_shard("gradient_divide_factors", replace)
