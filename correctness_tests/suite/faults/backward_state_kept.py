"""FSDP2 keeps what it noted of each backward: no bytes, but more objects after every step.

Must fail:
``correctness_tests/test_memory_is_released.py::test_every_step_leaves_the_same_bytes_and_objects``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"\(bytes, objects\) after steps 3 to 8 take the values", unseen="objects without bytes: a rehearsal counts bytes"
)


def apply() -> None:
    """Plant the fault in this process."""
    kept: list[Any] = []

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def finalize_backward(group: Any) -> None:
            kept.append([group])
            original(group)

        return finalize_backward

    patch_fully_shard("finalize_backward", replace)
