"""FSDP2 does not reshard after forward: every block's parameters stay until backward.

Must fail:
``correctness_tests/test_choreography.py::test_a_block_is_freed_right_after_its_forward``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, sends
from fixtures.torch_internals import patch_fully_shard, training_state

CAUGHT = Caught(r"use 0 is followed by free 0", rehearsal=sends("fsdp2", r"5 all-gather bfloat16"))


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def reshard(group: Any) -> None:
            if training_state(group) != "FORWARD":
                original(group)

        return reshard

    patch_fully_shard("reshard", replace)
