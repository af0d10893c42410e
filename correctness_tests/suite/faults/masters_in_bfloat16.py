"""FSDP2 keeps its shards in bfloat16, the dtype that it computes in, although they were float32.

Must fail: ``correctness_tests/test_mixed_precision.py::test_each_tensor_has_its_dtype``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from correctness_tests.suite.faults import Caught, moves
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"masters is \{torch.bfloat16\}",
    {"what": "masters", "dtype": torch.float32},
    rehearsal=moves("fsdp2:ddp", "resident", r"IMPROVED", r"ddp unchanged.*fsdp2 -\d"),
)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def init_shard(parameter: Any, whole: nn.Parameter, *args: Any) -> None:
            rough = nn.Parameter(whole.detach().bfloat16(), requires_grad=whole.requires_grad)
            original(parameter, rough, *args)

        return init_shard

    patch_fully_shard("init_shard", replace)
