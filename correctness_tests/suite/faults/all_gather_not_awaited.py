"""FSDP2 does not wait for its all-gather and reads the parameters at once: right only where every rank is quick.

Must fail:
``correctness_tests/test_races.py::test_delays_change_no_bit``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, grows
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"fsdp2 on cpu-gloo-2 under .*, seed \d+: rank \d, step \d",
    {"world_size": 2, "strategy": "fsdp2"},
    rehearsal=grows("fsdp2"),
)

_kept: list[Any] = []
"""Works and tensors that are under way, so that their memory stays theirs."""


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def unawaited(comm: Any, output_tensor: Any, input_tensor: Any, group: Any, **kwargs: Any) -> None:
            work = original(comm, output_tensor, input_tensor, group, **{**kwargs, "async_op": True})
            _kept.append((work, output_tensor, input_tensor))

        return unawaited

    patch_fully_shard("all_gather", replace)
