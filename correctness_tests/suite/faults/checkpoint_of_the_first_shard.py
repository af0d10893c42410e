"""A checkpoint holds rank 0's rows; those of the other ranks are zeros.

Must fail: ``correctness_tests/test_checkpoints.py::test_what_four_ranks_saved_loads_anywhere``.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint.state_dict_saver as saver
from torch.distributed.tensor import DTensor

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from fixtures.torch_internals import tree_map_only

CAUGHT = Caught(r"saved on 4, loaded on 2 ranks, rank 0, .*expected", {"load_size": 2}, unseen=NOT_TRAINED)


def apply() -> None:
    """Plant the fault in this rank."""
    original = saver.save

    def forget(tensor: DTensor) -> DTensor:
        shard = tensor.to_local()
        kept = shard.clone() if dist.get_rank() == 0 else shard.new_zeros(shard.shape)
        return DTensor.from_local(
            kept, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
        )

    def save(state_dict: Any, **kwargs: Any) -> Any:
        return original(tree_map_only(DTensor, forget, state_dict), **kwargs)

    saver.save = save
