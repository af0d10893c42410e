"""FSDP2 does not reshard after backward: the whole model stays gathered, and is stale after the step.

Must fail:
``correctness_tests/test_choreography.py::test_nothing_is_left_gathered_after_the_step``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, moves
from fixtures.torch_internals import patch_fully_shard, training_state

CAUGHT = Caught(
    r"unit \S+ is filled and freed in turn, freed last",
    {"model": "flat", "reshard": None},
    rehearsal=moves("fsdp2:ddp", "resident", r"REGRESSED", r"ddp unchanged.*fsdp2 \+\d"),
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def reshard(group: Any) -> None:
            if training_state(group) == "FORWARD":
                original(group)

        return reshard

    patch_fully_shard("reshard", replace)
