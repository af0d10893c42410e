"""FSDP2's shards include their padding: rows of zeros that no parameter has.

Must fail: ``correctness_tests/test_any_module_is_cut_by_rows.py::test_every_gloo_rank_holds_its_rows``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import CUT_EVENLY, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"rank 1 of 2, parameter .*holds", {"world_size": 2}, unseen=CUT_EVENLY)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def init_shard(parameter: Any, *args: Any) -> None:
            original(parameter, *args)
            whole = parameter.sharded_param
            padded = parameter._sharded_param_data.view(parameter.padded_sharded_param_size)
            shard = DTensor.from_local(
                padded, whole.device_mesh, whole.placements, run_check=False, shape=whole.shape, stride=whole.stride()
            )
            parameter.sharded_param = nn.Parameter(shard, requires_grad=whole.requires_grad)
            parameter._setattr_on_modules(parameter.sharded_param)

        return init_shard

    patch_fully_shard("init_shard", replace)
