"""FSDP2 without sync drops a micro-batch's gradients: only the last one's are reduced.

Must fail:
``correctness_tests/test_gradients_of_variants.py::test_sharded_gradients_are_those_of_one_process``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"against one process in float64, accumulation, last micro-batch synced, .*are off\. Worst",
    {"world_size": 2, "name": "accumulation, last micro-batch synced"},
    unseen=NOT_TRAINED,
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def post_backward(group: Any, *unused: Any) -> None:
            original(group, *unused)
            if not group.reduce_grads:
                for parameter in group.fsdp_params:
                    parameter.unsharded_param.grad = None

        return post_backward

    patch_fully_shard("post_backward", replace)
