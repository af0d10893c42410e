"""FSDP2 reduces gradients in bfloat16: half the bytes, and digits lost. An unexplained saving fails too.

Must fail: ``perf_tests/test_traffic_budget.py::test_messages_are_the_accepted``.
"""

from __future__ import annotations

import torch

from correctness_tests.suite.faults import Caught, sends
from fixtures import strategies
from fixtures.session.budgets import Budgeted

CAUGHT = Caught(
    r"mlp/fsdp2/traffic.*reduce-scatter bfloat16 bytes 0 ->",
    {"wanted": Budgeted("mlp", "fsdp2", "traffic")},
    rehearsal=sends("fsdp2", r"reduce-scatter bfloat16"),
)


def apply() -> None:
    """Plant the fault in this rank."""
    strategies.REDUCE_DTYPE = torch.bfloat16
