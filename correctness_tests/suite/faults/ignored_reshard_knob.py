"""``reshard_after_forward=False`` has no effect: blocks are resharded all the same, and gathered once more.

Must fail: ``perf_tests/test_traffic_budget.py::test_messages_are_the_ledgers``. So must a rehearsal of the knob,
by its gathers: on a small model the peak moves by less than the gate's tolerance.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.fsdp import fully_shard as original

from correctness_tests.suite.faults import FEWER_GATHERS, Caught, sends
from fixtures import strategies

CAUGHT = Caught(
    r"fsdp2-noreshard of mlp",
    {"strategy": "fsdp2-noreshard", "world_size": 2, "workload": "mlp", "precision": "mixed"},
    rehearsal=sends("fsdp2-noreshard", "9 all-gather bfloat16") | FEWER_GATHERS,
)


def apply() -> None:
    """Plant the fault in this rank: every unit but the root, which is wrapped last, is resharded."""

    def fully_shard(module: nn.Module, **options: Any) -> Any:
        is_root = any(hasattr(child, "unshard") for child in module.modules() if child is not module)
        return original(module, **(options if is_root else options | {"reshard_after_forward": True}))

    strategies.fully_shard = fully_shard  # type: ignore[assignment, attr-defined]
