"""DDP keeps gradients of its own beside its buckets: 4 bytes a parameter more while they are alive.

Must fail: ``perf_tests/test_resident_budget.py::test_gradient_bytes_are_the_ledgers``. So must a rehearsal, ``pytest
perf_tests -m gpu --rehearse --rank-patch ...``, with ddp named as the arm that moved.
"""

from __future__ import annotations

import functools
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from correctness_tests.suite.faults import Caught, moves

CAUGHT = Caught(
    r"gradients, ddp of uneven in mixed.*difference \+",
    {"strategy": "ddp"},
    rehearsal=moves("fsdp2:ddp", "peak", r"IMPROVED", r"ddp \+\d.*fsdp2 unchanged"),
)


def apply() -> None:
    """Plant the fault in this rank."""
    original = DistributedDataParallel.__init__

    @functools.wraps(original)
    def init(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **(kwargs | {"gradient_as_bucket_view": False}))

    DistributedDataParallel.__init__ = init  # type: ignore[method-assign]
