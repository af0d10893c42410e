"""Gradient sync, once switched off, is never switched on again: the last micro-batch reduces nothing.

Must fail:
``correctness_tests/test_gradients_of_variants.py::test_sharded_gradients_are_those_of_one_process``.
"""

from __future__ import annotations

from typing import Any

from torch.distributed.fsdp import FSDPModule

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(
    r"other parameters", {"world_size": 2, "name": "accumulation, last micro-batch synced"}, unseen=NOT_TRAINED
)


def apply() -> None:
    """Plant the fault in this process."""
    original = FSDPModule.set_requires_gradient_sync

    def set_requires_gradient_sync(module: FSDPModule, requires_gradient_sync: bool, **kwargs: Any) -> None:
        if not requires_gradient_sync:
            original(module, requires_gradient_sync, **kwargs)

    FSDPModule.set_requires_gradient_sync = set_requires_gradient_sync  # type: ignore[assignment, method-assign]
