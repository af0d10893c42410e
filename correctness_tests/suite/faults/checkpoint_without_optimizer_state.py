"""Loading a checkpoint leaves the optimizer's state as it was.

Must fail: ``correctness_tests/test_checkpoints.py::test_training_goes_on_as_if_never_interrupted``.
"""

from __future__ import annotations

from typing import Any

import torch.distributed.checkpoint.state_dict_loader as loader

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"rank 0, resumed after 2 of 4 steps, .*optimizer state included", unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""
    original = loader.load

    def load(state_dict: dict[str, Any], **kwargs: Any) -> None:
        original({"model": state_dict["model"]}, **kwargs)

    loader.load = load
