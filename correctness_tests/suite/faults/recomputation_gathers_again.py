"""Activation checkpointing gathers a unit once more to recompute it, although it is there.

Must fail:
``correctness_tests/test_choreography.py::test_each_use_gathers_its_unit_once``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from fixtures.torch_internals import groups_of, patch_fully_shard, training_state

CAUGHT = Caught(r"unit \S+ is gathered \d times, not \d", {"model": "recomputed"}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def pre_forward(state: Any, *args: Any) -> Any:
            if training_state(state) == "PRE_BACKWARD":
                for group in groups_of(state):
                    group.reshard()
            return original(state, *args)

        return pre_forward

    patch_fully_shard("pre_forward", replace)
