"""HSDP leaves out the all-reduce over replicas: each replica trains alone.

Must fail:
``correctness_tests/test_gradients_of_variants.py::test_sharded_gradients_are_those_of_one_process``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"against one process in float64, hsdp, .*are off\. Worst", {"world_size": 4, "name": "hsdp"}, unseen=NOT_TRAINED
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(*args: Any, **kwargs: Any) -> Any:
            call = inspect.signature(original).bind(*args, **kwargs)
            call.arguments["all_reduce_group"] = None
            return original(*call.args, **call.kwargs)

        return reduce

    patch_fully_shard("reduce", replace)
