"""On the last rank the second of two modules that share a weight gets a parameter of its own, once it trains.

Must fail: ``correctness_tests/test_tied_weights.py::test_every_row_of_a_shared_weight_trains``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import NUMBERS, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"rank 3 of 4, .*no longer share one parameter", {"wrap": "root"}, unseen=NUMBERS)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_parameter(self: Any, parameter: nn.Parameter) -> None:
            original(self, parameter)
            # Not in fully_shard itself, which would notice that the names of the parameters change.
            after_a_forward = isinstance(parameter, DTensor) and hasattr(self, "_unsharded_param")
            if dist.get_rank() == dist.get_world_size() - 1 and after_a_forward:
                info = self._module_info
                for module, name in zip(info.shared_modules, info.shared_param_names, strict=True):
                    module.register_parameter(name, nn.Parameter(parameter.detach()))

        return set_parameter

    patch_fully_shard("set_parameter", replace)
