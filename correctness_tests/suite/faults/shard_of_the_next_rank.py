"""FSDP2 gives each rank the rows of the next one: every row is held once, by the wrong rank.

Must fail: ``correctness_tests/test_any_module_is_cut_by_rows.py::test_every_gloo_rank_holds_its_rows``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NUMBERS, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"rank \d of 2, parameter .* expected rows", {"world_size": 2}, unseen=NUMBERS)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def init_shard(parameter: Any, whole: Any, device: Any, placement: Any, mesh_info: Any) -> None:
            rank = mesh_info.shard_mesh_rank
            mesh_info.shard_mesh_rank = (rank + 1) % mesh_info.shard_mesh_size
            original(parameter, whole, device, placement, mesh_info)
            mesh_info.shard_mesh_rank = rank

        return init_shard

    patch_fully_shard("init_shard", replace)
