"""FSDP2 spreads rows so that shards differ by at most one: no longer torch.chunk's cut, which others count on.

Must fail: ``correctness_tests/test_any_module_is_cut_by_rows.py::test_the_fixed_module_is_cut_by_rows_at_every_size``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from correctness_tests.suite.faults import CUT_EVENLY, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(r"rank \d of 3, parameter .* expected rows", {"world_size": 3}, unseen=CUT_EVENLY)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda tensor, num_chunks, dim: list(torch.tensor_split(tensor, num_chunks, dim=dim))

    patch_fully_shard("chunk", replace)
