"""A hook of FSDP2 calls a function 20 times for each unit: no operator, no byte, and the host is slower.

Must fail: ``perf_tests/test_host_budget.py::test_host_work_is_the_accepted``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import HOST, Caught
from fixtures.session.budgets import Budgeted
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"REGRESSED mlp/fsdp2/host.*backward calls .*where +backward calls: .*calls_in_a_hook.py\s+0 -> 84",
    {"wanted": Budgeted("mlp", "fsdp2", "host")},
    unseen=HOST,
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def post_backward(group: Any, *args: Any) -> Any:
            for _ in range(20):
                nothing()
            return original(group, *args)

        return post_backward

    patch_fully_shard("post_backward", replace)


def nothing() -> None:
    """Cost a call."""
