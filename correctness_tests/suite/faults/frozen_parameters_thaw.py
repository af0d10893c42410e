"""FSDP2 forgets that a parameter was frozen: it is reduced, and the optimizer moves it.

Must fail: ``correctness_tests/test_frozen_parameters.py::test_only_what_trains_is_reduced``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import NOT_TRAINED, Caught
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"frozen: reduce-scatters of .*A frozen parameter was reduced", {"names": ("first.up",)}, unseen=NOT_TRAINED
)


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., None]) -> Callable[..., None]:
        def init_shard(parameter: Any, *args: Any) -> None:
            original(parameter, *args)
            parameter.sharded_param.requires_grad_(True)

        return init_shard

    patch_fully_shard("init_shard", replace)
