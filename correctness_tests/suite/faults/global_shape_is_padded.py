"""A sharded parameter says that it has as many rows as its padded shards have together.

Must fail: ``correctness_tests/test_shards_know_the_whole.py::test_a_shard_describes_the_whole_parameter``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import CUT_EVENLY, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"\(found, expected\) differ: .*shape", unseen=CUT_EVENLY)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def init_shard(parameter: Any, *args: Any) -> None:
            original(parameter, *args)
            whole = parameter.sharded_param
            rows = parameter.padded_sharded_param_size[0] * whole.device_mesh.size()
            shard = DTensor.from_local(
                whole.to_local(),
                whole.device_mesh,
                whole.placements,
                run_check=False,
                shape=whole.shape.__class__([rows, *whole.shape[1:]]),
                stride=whole.stride(),
            )
            parameter.sharded_param = nn.Parameter(shard.detach(), requires_grad=whole.requires_grad)
            parameter._setattr_on_modules(parameter.sharded_param)

        return init_shard

    patch_fully_shard("init_shard", replace)
