"""FSDP2 does not wait for its reduce-scatter and reads the gradient at once: right only where every rank is quick.

Must fail:
``correctness_tests/test_races.py::test_delays_change_no_bit``.
"""

from __future__ import annotations

from correctness_tests.suite.faults import Caught, grows
from correctness_tests.suite.faults._patches import not_awaited

CAUGHT = Caught(
    r"fsdp2 on cpu-gloo-2 under .*, seed \d+: rank \d, step \d",
    {"world_size": 2, "strategy": "fsdp2"},
    rehearsal=grows("fsdp2"),
)


def apply() -> None:
    """Plant the fault in this process."""
    not_awaited("reduce_scatter")
