"""A cache is asked with a new key in every step: an entry more each time, no tensor and no object.

Must fail: ``perf_tests/test_host_growth.py::test_nothing_grows``.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch

from correctness_tests.suite.faults import HOST, Caught

CAUGHT = Caught(r"left this behind.*cache_of_every_step.seen': 20", {"strategy": "ddp"}, unseen=HOST)

NUMBERS = itertools.count()


@functools.cache
def seen(number: int) -> int:
    """The number itself."""
    return number


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        seen(next(NUMBERS))
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
