"""Every step leaves an object behind, as a hook that is registered again does.

Must fail: ``perf_tests/test_host_growth.py::test_nothing_grows``.
"""

from __future__ import annotations

from typing import Any

import torch

from correctness_tests.suite.faults import HOST, Caught

CAUGHT = Caught(r"left this behind.*object_kept_in_every_step.Kept': 20", {"strategy": "ddp"}, unseen=HOST)


class Kept:
    """What is left, each held by the one after it."""

    def __init__(self, before: Kept | None) -> None:
        self.before = before


LAST = [Kept(None)]


def apply() -> None:
    """Plant the fault in this rank."""
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *args: Any, **options: Any) -> Any:
        LAST[0] = Kept(LAST[0])
        return original(self, *args, **options)

    torch.optim.AdamW.step = step  # type: ignore[assignment, method-assign]
