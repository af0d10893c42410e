"""FSDP2 averages gradients in the reduction and divides them by N once more.

Must fail:
``correctness_tests/test_gradients_of_variants.py::test_sharded_gradients_are_those_of_one_process``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NUMBERS, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"against one process in float64, plain, .*are off\. Worst", {"world_size": 4, "name": "plain"}, unseen=NUMBERS
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def factors(group: Any, *args: Any, **kwargs: Any) -> Any:
            before, _, scatter, reduce = original(group, *args, **kwargs)
            return before, group.size(), scatter, reduce

        return factors

    patch_fully_shard("gradient_divide_factors", replace)
