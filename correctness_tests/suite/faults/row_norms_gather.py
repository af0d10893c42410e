"""DTensor gathers the whole tensor before it takes a norm: the values are right, the promise is not.

Must fail: ``correctness_tests/test_row_norms.py::test_row_norms_need_no_communication``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"row norms issued \['all-gather'", {"world_size": 2}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.linalg.vector_norm

    def vector_norm(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not isinstance(x, DTensor):
            norms: torch.Tensor = original(x, *args, **kwargs)
            return norms
        placements = x.placements
        whole: DTensor = original(x.redistribute(placements=[Replicate()]), *args, **kwargs)
        return whole.redistribute(placements=placements)

    torch.linalg.vector_norm = vector_norm
