"""What wrapping, and a steady step, cost the host as N grows: counts of one process that plays a rank of N."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from fixtures.measurements import Settings
from fixtures.meters.host import CallMeter, OperatorMeter
from fixtures.models import LARGE
from fixtures.platforms import playing_rank
from fixtures.strategies import get_strategy
from fixtures.torch_internals import tree_leaves
from fixtures.training import Arm, Trainer
from fixtures.workloads import build_cheaply, gpt2, resolve_workload

one_block = partial(gpt2, "gpt2-large-1-layer", replace(LARGE, layers=1), 4)
"""GPT-2 Large with one of its blocks: 12 parameters, and the root's 4."""


@dataclass(frozen=True)
class Counts:
    """Python calls, dispatched operators, and tensors that operators returned."""

    calls: int
    operators: int
    tensors: int


class TensorMeter(OperatorMeter):
    """Counts the tensors that operators return, too: a split is one operator and N tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        self.tensors += sum(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(out))
        return out


def count_wrap(workload: str, strategy: str, world_size: int) -> Counts:
    """Wrapping a model that is on the CPU, caches warm."""
    with playing_rank(0, world_size) as platform:
        mesh, found = platform.mesh(), resolve_workload(workload)
        device = torch.device("cpu")

        def wrap(meter: CallMeter | TensorMeter | None) -> None:
            model = build_cheaply(found).to_empty(device="cpu")
            with quiet(meter):
                get_strategy(strategy).apply(model, found, mesh, device, "mixed")

        wrap(None)
        calls, tensors = CallMeter(), TensorMeter()
        wrap(calls)
        wrap(tensors)
    return _counts(calls, tensors)


def count_step(workload: str, strategy: str, world_size: int) -> Counts:
    """The fourth and fifth step of a rank."""
    with playing_rank(0, world_size) as platform:
        trainer = Trainer(Arm(workload, strategy, Settings()), platform)
        for _ in range(3):
            trainer.step()
        calls, tensors = CallMeter(), TensorMeter()
        for meter in (calls, tensors):
            with quiet(meter):
                trainer.step()
    return _counts(calls, tensors)


@contextmanager
def quiet(meter: CallMeter | TensorMeter | None) -> Iterator[None]:
    """Count with the garbage collector off, whose finalizers are calls."""
    gc.collect()
    gc.disable()
    try:
        if meter is None:
            yield
        else:
            with meter:
                yield
    finally:
        gc.enable()


def _counts(calls: CallMeter, tensors: TensorMeter) -> Counts:
    return Counts(
        sum(sum(phase.values()) for phase in calls.counts.values()),
        sum(sum(phase.values()) for phase in tensors.counts.values()),
        tensors.tensors,
    )
