"""Autocast computes in float16 whatever dtype it is told: as many bytes, messages and operators, and other numbers.

Must fail: ``correctness_tests/test_compute_dtype.py::test_products_are_in_the_dtype_of_the_precision``.
"""

from __future__ import annotations

from typing import Any

import torch

from correctness_tests.suite.faults import NUMBERS, Caught

CAUGHT = Caught(
    r"ddp of mlp in mixed.*products are in \{torch\.float16\}, expected torch\.bfloat16",
    {"strategy": "ddp", "precision": "mixed"},
    unseen=NUMBERS,
)


def apply() -> None:
    """Plant the fault in this process."""
    original = torch.autocast.__init__

    def init(self: torch.autocast, *args: Any, **options: Any) -> None:
        original(self, *args, **(options | {"dtype": torch.float16}))

    torch.autocast.__init__ = init  # type: ignore[method-assign]
