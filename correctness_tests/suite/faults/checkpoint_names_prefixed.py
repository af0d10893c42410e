"""A checkpoint's names have a wrapper's prefix: it loads again where it was saved, and nowhere else.

Must fail: ``correctness_tests/test_checkpoints.py::test_names_are_the_plain_models``.
"""

from __future__ import annotations

from typing import Any

import torch.distributed.checkpoint.state_dict_saver as saver

from correctness_tests.suite.faults import NOT_TRAINED, Caught

CAUGHT = Caught(r"names only saved: .*model\._wrapped\.", unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""
    original = saver.save

    def save(state_dict: dict[str, Any], **kwargs: Any) -> Any:
        model = {f"_wrapped.{name}": value for name, value in state_dict["model"].items()}
        return original(state_dict | {"model": model}, **kwargs)

    saver.save = save
