"""FSDP2 keeps every unit's reduce-scatter input to the end of backward, where it should keep one: no leak, a peak.

Must fail: ``perf_tests/test_phase_accounts.py::test_every_phase_is_the_ledgers``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, moves
from correctness_tests.suite.faults._patches import kept_in_backward

CAUGHT = Caught(
    r"peak_backward, fsdp2 of even.*difference \+.*reduce-scatter inputs: measured",
    {"size": "even", "world_size": 4, "strategy": "fsdp2"},
    rehearsal=moves("fsdp2:ddp", "peak", r"REGRESSED", r"ddp unchanged.*fsdp2 \+\d"),
)


def apply() -> None:
    """Plant the fault in this process."""

    def keep(original: Callable[..., Any], kept: list[Any]) -> Callable[..., Any]:
        def reduce(*args: Any) -> Any:
            found = original(*args)
            kept.append(found[0])
            return found

        return reduce

    kept_in_backward(keep)
