"""DeepSpeed keeps small parameters whole on every rank, as its default threshold has it.

Must fail: ``correctness_tests/test_zero3.py::test_parameters_are_resharded_after_their_use``.
"""

from __future__ import annotations

from typing import Any

from correctness_tests.suite.faults import Caught, moves
from fixtures.ledger import Precision

CAUGHT = Caught(
    r"zero3, rank 0 of 2: parameters left whole when each phase ended: .*tokens\.weight",
    rehearsal=moves("fsdp2:zero3", "resident", r"IMPROVED", r"zero3 \+\d.*fsdp2 unchanged"),
)


def apply() -> None:
    """Plant the fault in this process."""
    from fixtures import zero3

    original = zero3.configuration

    def configuration(precision: Precision, block_numel: int | None) -> dict[str, Any]:
        config = original(precision, block_numel)
        del config["zero_optimization"]["stage3_param_persistence_threshold"]
        return config

    zero3.configuration = configuration
