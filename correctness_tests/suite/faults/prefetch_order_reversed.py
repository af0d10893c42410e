"""FSDP2's backward prefetches the block that comes after, which is done with, and not the one before.

Must fail:
``correctness_tests/test_choreography.py::test_backward_gathers_the_previous_block_before_it_reduces_this_one``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, sends
from fixtures.torch_internals import patch_fully_shard, prefetch

CAUGHT = Caught(r"gather \d comes before grad \d", rehearsal=sends("fsdp2", r"12 all-gather bfloat16"))


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward_prefetch(group: Any) -> None:
            order = group.comm_ctx.post_forward_order
            after = order.index(group) + 1
            if after < len(order):
                prefetch(order[after])

        return backward_prefetch

    patch_fully_shard("backward_prefetch", replace)
