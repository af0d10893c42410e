"""FSDP2 keeps the whole gradients that it has reduced.

Must fail:
``correctness_tests/test_memory_is_released.py::test_every_step_leaves_the_same_bytes_and_objects``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, grows
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"\(bytes, objects\) after steps 3 to 8 take the values", rehearsal=grows("fsdp2"))


def apply() -> None:
    """Plant the fault in this process."""
    kept: list[Any] = []

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(parameters: Any, gradients: list[Any], *args: Any) -> Any:
            kept.extend(gradients)
            return original(parameters, gradients, *args)

        return reduce

    patch_fully_shard("reduce", replace)
