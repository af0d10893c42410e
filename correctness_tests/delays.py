"""Delays that bring out races: a slow rank, a slow collective, random pauses; with what is not yet written made NaN.

A step that waits for every collective before it reads the result computes the same bits however long anything takes.
One that does not wait reads what lay in that memory before, in a fast and even run often the right values of the step
before. So memory that is handed out is filled with NaN first, and memory that is given back is taken again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from fixtures.platforms import Platform
from fixtures.ranks import current
from fixtures.strategies import build_model, get_strategy, rank_generator
from fixtures.torch_internals import DispatchMode, has_wrapper
from fixtures.workloads import Workload, mlp

SEED = 1337
EMPTY = (torch.ops.aten.empty.memory_format, torch.ops.aten.new_empty.default, torch.ops.aten.empty_like.default)

Step = dict[str, torch.Tensor]
"""What a rank holds after a step: its part of every parameter and gradient, by name."""


@dataclass(frozen=True)
class Delay:
    """How one run is disturbed; ``seed`` decides every pause.

    ``slow_rank`` pauses before every collective and each optimizer step; ``slow_collective`` is the number of the
    collective, counted from the step's first, before which each rank pauses for a time of its own; with ``random``
    every rank pauses before and after any collective, and around the optimizer, or does not; each by ``longest_ms``.
    """

    name: str
    seed: int
    slow_rank: int | None = None
    slow_collective: int | None = None
    random: bool = False
    longest_ms: float = 8.0

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


class Delays(DispatchMode):
    """Pauses around collectives as ``delay`` says, on the rank that it runs on."""

    def __init__(self, delay: Delay, rank: int) -> None:
        super().__init__()
        self.delay, self.rank = delay, rank
        self.draw = random.Random(f"{delay.seed} {rank}")
        self.collective = 0
        """The number of the next collective of this step."""

    def begin_step(self) -> None:
        """Count collectives anew."""
        self.collective = 0

    def pause(self, before: bool) -> None:
        """Pause, or do not, before or after something that others wait for."""
        share = self.draw.random()
        if self.delay.slow_rank is not None:
            share = float(before and self.rank == self.delay.slow_rank)
        elif self.delay.slow_collective is not None:
            share *= before and self.collective == self.delay.slow_collective
        elif self.delay.random and self.draw.random() < 0.5:
            share = 0.0
        time.sleep(share * self.delay.longest_ms / 1000)

    def churn(self) -> None:
        """Take memory of many sizes, fill it with NaN and give it back, so that what was freed is not as it was."""
        for _ in range(8):
            torch.full((self.draw.randrange(1, 512),), torch.nan)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if has_wrapper(types):
            return NotImplemented
        collective = "c10d" in func.namespace and "wait" not in func.name()
        if collective:
            self.pause(before=True)
            self.churn()
        out = func(*args, **(kwargs or {}))
        if collective:
            self.pause(before=False)
            self.collective += 1
        elif func in EMPTY and out.is_floating_point():
            out.fill_(torch.nan)
        return out


@contextmanager
def disturbed(optimizer: torch.optim.Optimizer, delay: Delay | None, rank: int) -> Iterator[Delays | None]:
    """Run a training loop under a delay, or under none."""
    if delay is None:
        yield None
        return
    mode = Delays(delay, rank)
    handles = [
        optimizer.register_step_pre_hook(lambda *_: mode.pause(before=True)),
        optimizer.register_step_post_hook(lambda *_: mode.pause(before=False)),
    ]
    with mode:
        yield mode
    for handle in handles:
        handle.remove()


def small() -> Workload:
    """Two blocks and a root that holds nothing, with rows that no world size here divides evenly."""
    return mlp("races", layers=2, width=10, hidden=13, rows=4)


def train_delayed(strategy_name: str, delay: Delay | None, steps: int) -> list[Step]:
    """On a rank: train in float32 with new data in every step; what the rank holds after each backward and update."""
    platform, rank = current().platform, current().rank
    strategy, workload, generator = get_strategy(strategy_name), small(), rank_generator(SEED, rank)
    module = _sharded(strategy_name, workload, platform, rank)
    optimizer = strategy.optimizer(module, workload)
    held: list[Step] = []
    with disturbed(optimizer, delay, rank) as mode:
        for _ in range(steps):
            if mode is not None:
                mode.begin_step()
            loss = strategy.forward(module, workload, workload.batch(generator), "fp32")
            strategy.backward(module, loss)
            found = {
                f"gradient of {name}": _local(p.grad) for name, p in module.named_parameters() if p.grad is not None
            }
            strategy.update(module, optimizer)
            found |= {name: _local(p) for name, p in module.named_parameters()}
            optimizer.zero_grad(set_to_none=True)
            held.append(found)
    return held


def _sharded(strategy_name: str, workload: Workload, platform: Platform, rank: int) -> torch.nn.Module:
    model = build_model(workload, SEED)
    return get_strategy(strategy_name).apply(model, workload, platform.mesh(), platform.device(rank), "fp32")


def _local(tensor: torch.Tensor) -> torch.Tensor:
    part = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part.detach().clone()


def first_difference(found: list[list[Step]], expected: list[list[Step]]) -> str:
    """Where two runs differ first, by step, then by rank, and how much; empty when every bit is the same."""
    for step in range(len(expected[0])):
        for rank, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            assert mine[step].keys() == theirs[step].keys(), f"rank {rank}: other tensors than without delays"
            for name, tensor in theirs[step].items():
                ours = mine[step][name]
                if not torch.equal(ours.view(torch.int32), tensor.view(torch.int32)):
                    off = int((ours.view(torch.int32) != tensor.view(torch.int32)).sum())
                    worst = (ours - tensor).abs().max().item()
                    many = f"{off} of {tensor.numel()} elements differ"
                    return f"rank {rank}, step {step}, {name}: {many}, by up to {worst:.3g}"
    return ""
