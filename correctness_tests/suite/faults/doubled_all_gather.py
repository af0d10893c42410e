"""FSDP2 issues every all-gather twice: the parameters are right, the bytes are not.

Must fail:
``correctness_tests/test_choreography.py::test_each_use_gathers_its_unit_once``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, sends
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"unit \S+ is gathered \d times, not \d", {"model": "flat"}, rehearsal=sends("fsdp2", r"18 all-gather bfloat16")
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def all_gather(comm: Any, **kwargs: Any) -> Any:
            original(comm, **kwargs)
            return original(comm, **kwargs)

        return all_gather

    patch_fully_shard("all_gather", replace)
