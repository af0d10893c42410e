"""AdamW no longer takes its foreach path: the peak of the optimizer falls, which no one asked for.

Must fail: ``perf_tests/test_phase_accounts.py::test_every_phase_is_the_ledgers``.
"""

from __future__ import annotations

from typing import Any

import torch

from correctness_tests.suite.faults import WITHIN_THE_GATE, Caught

CAUGHT = Caught(
    r"peak_optimizer, fsdp2 of even.*difference -.*AdamW foreach temporaries: measured",
    {"size": "even", "world_size": 4, "strategy": "fsdp2"},
    unseen=WITHIN_THE_GATE,
)


def apply() -> None:
    """Plant the fault in this process."""
    original = torch.optim.AdamW.__init__

    def init(self: torch.optim.AdamW, parameters: Any, **options: Any) -> None:
        original(self, parameters, **(options | {"foreach": False}))

    torch.optim.AdamW.__init__ = init  # type: ignore[assignment, method-assign]
