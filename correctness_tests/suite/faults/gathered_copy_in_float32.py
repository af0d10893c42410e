"""FSDP2 makes a float32 copy of each unit that it gathered in bfloat16, for as long as it copies out.

Must fail: ``perf_tests/test_phase_accounts.py::test_every_phase_is_the_ledgers``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from correctness_tests.suite.faults import Caught, moves
from fixtures.torch_internals import patch_fully_shard

CAUGHT = Caught(
    r"peak_forward, fsdp2 of even.*difference \+.*the model's and autograd's own: measured.*_to_copy",
    {"size": "even", "world_size": 4, "strategy": "fsdp2"},
    rehearsal=moves("fsdp2:ddp", "peak", r"REGRESSED", r"ddp unchanged.*fsdp2 \+\d"),
)


def apply() -> None:
    """Plant the fault in this process."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def copy_out(gathered: Any, *args: Any) -> None:
            wide = gathered.all_gather_output.float()
            original(gathered, *args)
            del wide

        return copy_out

    patch_fully_shard("all_gather_copy_out", replace)
