"""DeepSpeed's stage 3 leaves rank 0's shard of each parameter on every rank: what the others held is lost.

Must fail: ``correctness_tests/test_zero3_flat_shards.py::test_shards_are_flat_runs_of_elements``.
"""

from __future__ import annotations

import os
from typing import Any

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(
    r"zero3, rank 1 of 2, tokens\.weight of shape .*elements \[0, 1, .*, expected 1 and",
    {"world_size": 2},
    unseen=NUMBERS,
)


def apply() -> None:
    """Plant the fault in this process."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    from deepspeed.runtime.zero.partition_parameters import Init

    original = Init._partition_param

    def partition(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._partition_rank = lambda param: 0
        try:
            return original(self, *args, **kwargs)
        finally:
            del self._partition_rank

    Init._partition_param = partition
