"""An all-reduce that was asked for an average gives a sum, as gloo once did (pytorch#162338).

Must fail: ``correctness_tests/test_collectives.py::test_reductions_are_those_by_hand``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(
    r"all-reduce avg of torch.float32: got", {"op": "avg", "dtype": torch.float32, "world_size": 2}, unseen=NUMBERS
)


def apply() -> None:
    """Plant the fault in this process."""
    original = dist.all_reduce

    def all_reduce(tensor: torch.Tensor, op: Any = ReduceOp.SUM, **kwargs: Any) -> Any:
        return original(tensor, op=ReduceOp.SUM if op == ReduceOp.AVG else op, **kwargs)

    dist.all_reduce = all_reduce  # type: ignore[assignment]
