"""FSDP2 leaves 0-dim parameters as they are in place of refusing them: each rank then trains its own copy.

Must fail: ``correctness_tests/test_refusals.py::test_a_refused_module_is_as_it_was``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"DID NOT RAISE", {"case": "0-dim parameter"}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def managed_states(*args: Any) -> Any:
            parameters, buffers = original(*args)
            return [p for p in parameters if p.dim()], buffers

        return managed_states

    patch_fully_shard("verify_parameter", lambda original: lambda *args: None)
    patch_fully_shard("managed_states", replace)
