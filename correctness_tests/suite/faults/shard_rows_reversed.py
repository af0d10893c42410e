"""FSDP2 gives each rank its own rows in reverse order: shapes, bytes and collectives are right, the model is not.

Must fail: ``correctness_tests/test_whole_rows.py::test_every_gloo_rank_holds_its_whole_rows``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from correctness_tests.suite.faults import NUMBERS, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"rank \d of 2, parameter of shape .*holds", {"world_size": 2}, unseen=NUMBERS)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def init_shard(parameter: Any, *args: Any) -> None:
            original(parameter, *args)
            with torch.no_grad():
                local = parameter.sharded_param.to_local()
                local.copy_(local.flip(0))

        return init_shard

    patch_fully_shard("init_shard", replace)
