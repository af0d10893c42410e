"""Norms of a sharded tensor are taken over its whole storage, padding included: right while the padding is zero.

Must fail: ``correctness_tests/test_padding_does_not_leak.py::test_padding_leaks_into_nothing``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"rank \d of 2, norms, .*nan", {"world_size": 2}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.linalg.vector_norm

    def vector_norm(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if isinstance(x, DTensor):
            shard = x.to_local()
            buffer = torch.empty(0, dtype=shard.dtype).set_(shard.untyped_storage())
            x = DTensor.from_local(buffer, x.device_mesh, x.placements, run_check=False)
        norm: torch.Tensor = original(x, *args, **kwargs)
        return norm

    torch.linalg.vector_norm = vector_norm
