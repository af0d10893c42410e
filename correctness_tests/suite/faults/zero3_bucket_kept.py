"""DeepSpeed collects gradients in a bucket, which it keeps: twice what a step of a small model needs.

Must fail: ``perf_tests/test_zero3_resident.py::test_resident_bytes_are_the_ledgers``.
"""

from __future__ import annotations

from typing import Any

from correctness_tests.suite.faults import Caught, moves
from fixtures.ledger import Precision

CAUGHT = Caught(
    r"resident, zero3 of gpt2-rehearsal in mixed, rank 0 of cpu-gloo-2: .*difference \+[\d,]+\. More: DeepSpeed keeps",
    {"world_size": 2, "strategy": "zero3", "workload": "gpt2-rehearsal", "precision": "mixed"},
    rehearsal=moves("fsdp2:zero3", "resident", r"IMPROVED", r"zero3 \+\d.*fsdp2 unchanged"),
)


def apply() -> None:
    """Plant the fault in this process."""
    from fixtures import zero3

    original = zero3.configuration

    def configuration(precision: Precision, block_numel: int | None) -> dict[str, Any]:
        config = original(precision, block_numel)
        config["zero_optimization"]["contiguous_gradients"] = True
        return config

    zero3.configuration = configuration
