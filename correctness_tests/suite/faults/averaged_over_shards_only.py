"""HSDP averages over the ranks that shard and sums over the replicas.

Must fail:
``correctness_tests/test_gradients_of_variants.py::test_sharded_gradients_are_those_of_one_process``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed import ReduceOp

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"against one process in float64, hsdp, .*are off\. Worst", {"world_size": 4, "name": "hsdp"}, unseen=NOT_TRAINED
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def factors(*args: Any, **kwargs: Any) -> Any:
            before, after, scatter, _ = original(*args, **kwargs)
            return before, after, scatter, ReduceOp.SUM

        return factors

    patch_fully_shard("gradient_divide_factors", replace)
