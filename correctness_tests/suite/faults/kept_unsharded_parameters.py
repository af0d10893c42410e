"""FSDP2 never frees the parameters that it gathered: after each step a rank still holds the whole model.

Must fail: ``perf_tests/test_resident_budget.py::test_resident_bytes_are_the_ledgers``. So must a rehearsal, ``pytest
perf_tests -m gpu --rehearse --rank-patch ...``, with fsdp2 named as the arm that moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, moves
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"resident, fsdp2 of mlp in mixed.*difference \+",
    {"strategy": "fsdp2", "world_size": 2, "workload": "mlp", "precision": "mixed"},
    rehearsal=moves("fsdp2:ddp", "resident", r"REGRESSED", r"ddp unchanged.*fsdp2 \+\d"),
)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda tensor: None

    patch_fully_shard("free_storage", replace)
