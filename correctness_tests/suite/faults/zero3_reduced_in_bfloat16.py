"""DeepSpeed reduces gradients in the dtype that it computes in, and keeps them in float32.

Must fail: ``correctness_tests/test_zero3.py::test_mixed_precision_reduces_in_float32``.
"""

from __future__ import annotations

from typing import Any

from correctness_tests.suite.faults import Caught, moves
from fixtures.ledger import Precision

CAUGHT = Caught(
    r"zero3 in mixed precision against .*are off\. Worst.*reduction in bfloat16",
    rehearsal=moves("fsdp2:zero3", "peak", r"REGRESSED", r"zero3 -\d.*fsdp2 unchanged"),
)


def apply() -> None:
    """Plant the fault in this process."""
    from fixtures import zero3

    original = zero3.configuration

    def configuration(precision: Precision, block_numel: int | None) -> dict[str, Any]:
        config = original(precision, block_numel)
        del config["communication_data_type"]
        return config

    zero3.configuration = configuration
