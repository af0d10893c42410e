"""FSDP2's backward gathers a block only when that block's turn has come.

Must fail: ``correctness_tests/suite/test_recorded_timeline.py::test_a_step_is_its_choreography``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import WITHIN_THE_GATE, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"not its choreography at event \d+: measured \['backward root.*expected \['all-gather block 2",
    {"strategy": "fsdp2", "workload": "correctness_tests.suite.test_recorded_timeline:small_gpt"},
    unseen=WITHIN_THE_GATE,
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda group: None

    patch_fully_shard("backward_prefetch", replace)
