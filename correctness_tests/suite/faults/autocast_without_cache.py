"""Autocast keeps no copy of a parameter: what backward does not need goes at once, a weight used twice is cast twice.

Must fail: ``perf_tests/test_phase_accounts.py::test_every_phase_is_the_ledgers``.
"""

from __future__ import annotations

from typing import Any

import torch

from correctness_tests.suite.faults import WITHIN_THE_GATE, Caught

CAUGHT = Caught(
    r"peak_forward, ddp of even.*difference -.*the model's and autograd's own: measured",
    {"size": "even", "world_size": 4, "strategy": "ddp"},
    unseen=WITHIN_THE_GATE,
)


def apply() -> None:
    """Plant the fault in this process."""
    original = torch.autocast.__init__

    def init(self: torch.autocast, *args: Any, **options: Any) -> None:
        original(self, *args, **(options | {"cache_enabled": False}))

    torch.autocast.__init__ = init  # type: ignore[method-assign]
