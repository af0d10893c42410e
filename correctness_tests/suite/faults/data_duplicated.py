"""Every rank draws the data of rank 0: averaging is right and proves nothing.

Must fail: ``correctness_tests/test_gradients_match_ddp.py::test_ranks_have_data_of_their_own``.
"""

from __future__ import annotations

import torch

from correctness_tests import gradients
from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"rank \d of 2: its own gradients are the mean", unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this process."""
    setattr(gradients, "rank_generator", lambda seed, rank: torch.Generator().manual_seed(seed))  # noqa: B010
