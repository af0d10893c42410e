"""Loading a checkpoint whose file is cut short says nothing, and goes on with what it could read.

Must fail: ``correctness_tests/test_broken_checkpoints.py::test_a_damaged_checkpoint_is_an_error_on_every_rank``.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch.distributed.checkpoint.state_dict_loader as loader
from torch.distributed.checkpoint.api import CheckpointException

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"whose file .* is cut short without an error", {"damage": "cut short"}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""
    original = loader.load

    def load(state_dict: dict[str, Any], **kwargs: Any) -> None:
        with contextlib.suppress(CheckpointException):
            original(state_dict, **kwargs)

    loader.load = load
