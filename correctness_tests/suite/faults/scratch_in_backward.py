"""FSDP2 takes 64 KiB of scratch as the backward of each unit ends and frees it: resident bytes are as they were.

Must fail: ``perf_tests/test_memory_budget.py::test_bytes_are_the_accepted``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from correctness_tests.suite.faults import WITHIN_THE_GATE, Caught
from fixtures.session.budgets import Budgeted
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"REGRESSED mlp/fsdp2/memory.*peak backward bytes .*, \+53,248",
    {"wanted": Budgeted("mlp", "fsdp2", "memory")},
    unseen=WITHIN_THE_GATE,
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def post_backward(group: Any, *args: Any) -> Any:
            scratch = torch.zeros(64 * 1024, dtype=torch.uint8)
            result = original(group, *args)
            del scratch
            return result

        return post_backward

    patch_fully_shard("post_backward", replace)
