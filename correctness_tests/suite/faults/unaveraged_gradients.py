"""FSDP2 sums gradients over ranks and forgets to divide by N.

Must fail: ``correctness_tests/test_gradients_match_ddp.py``. Adam would hide it: it divides the scale out again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed import ReduceOp

from fixtures.torch_internals import patch_fully_shard


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: (None, None, ReduceOp.SUM, ReduceOp.SUM)

    patch_fully_shard("gradient_divide_factors", replace)
