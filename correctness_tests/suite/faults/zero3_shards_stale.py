"""DeepSpeed's step moves the masters and does not copy them to the shards that are computed with.

Must fail: ``correctness_tests/test_zero3.py::test_a_step_moves_every_parameter_and_its_shard``.
"""

from __future__ import annotations

import os
from typing import Any

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(
    r"zero3, rank 0 of 2: .*shards that are not their masters .*tokens\.weight", {"strategy": "zero3"}, unseen=NUMBERS
)


def apply() -> None:
    """Plant the fault in this process."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Stage3

    def forget(self: Any, sub_group_id: int) -> None:
        return None

    Stage3._reassign_or_swap_out_partitioned_parameters = forget
