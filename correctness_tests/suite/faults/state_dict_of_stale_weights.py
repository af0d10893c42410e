"""Loading a state dict does not reach the shards that later gathers read: the module goes on with its old weights.

Must fail: ``correctness_tests/test_life_of_a_module.py::test_a_module_lives_like_its_twin``.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from correctness_tests.variants import Net

CAUGHT = Caught(r"after load\(\): weights differ from the twin's", unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this process."""

    original = Net.load_state_dict

    def load_state_dict(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return None if isinstance(module, FSDPModule) else original(module, *args, **kwargs)

    Net.load_state_dict = load_state_dict  # type: ignore[assignment, method-assign]
