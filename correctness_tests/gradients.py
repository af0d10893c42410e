"""What the gradient tests share: small workloads of uneven shapes, and the gradients that a strategy computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from fixtures.models import MLP, GPTConfig
from fixtures.ranks.worker import current
from fixtures.strategies import Precision, build_model, get_strategy, rank_generator
from fixtures.workloads import Workload, gpt2

SEED = 1337
UNIT_ROUNDOFF = 2.0**-24
"""Largest relative error of one rounded operation in float32."""

WHOLE_NUMBER_LIMIT = 4 * 4 * 3 * 1712
"""Of a gradient of whole_number_mlp summed over 4 ranks: 4 rows, |target| <= 3, |hidden| <= 1712 (its last weight)."""

Gradients = dict[str, Tensor]
"""Full gradient of each parameter, by the parameter's name in the unwrapped model."""


@dataclass(frozen=True)
class Difference:
    """How far one parameter's gradient is from what it must be in one step of one rank; ``excess`` > 0 is a failure."""

    step: int
    parameter: str
    error: float
    largest: float
    excess: float


def uneven_gpt2() -> Workload:
    """A GPT-2 with SGD whose rows no world size above 1 divides, and whose last ranks of four hold nothing of some."""
    workload = gpt2("uneven-gpt2", GPTConfig(layers=2, heads=1, width=5, vocab=11, context=3), micro_batch=2)
    return replace(workload, optimizer=partial(torch.optim.SGD, lr=0.1))


def whole_number_mlp() -> Workload:
    """An MLP of uneven shapes whose weights, data and gradients are whole numbers, for any number of SGD steps.

    The loss is linear in the output, and lr = N turns the mean over N ranks into a sum. After each step the weights
    wrap around to -2..2, by an operation on single elements, so that they stay small. Then |x| <= 3, |hidden| <= 20,
    |x| <= 285 and |hidden| <= 1712 from block to block, and no gradient element, summed over 4 rows and 4 ranks, can
    exceed WHOLE_NUMBER_LIMIT: far below 2**24, all of it is exact in float32.
    """

    def model() -> nn.Module:
        mlp = MLP(layers=2, width=3, hidden=7)
        with torch.no_grad():
            for parameter in mlp.parameters():
                parameter.copy_(torch.randint(-2, 3, parameter.shape))
        return mlp

    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        sgd = torch.optim.SGD(parameters, lr=float(dist.get_world_size()))
        sgd.register_step_post_hook(_wrap_weights)
        return sgd

    return Workload(
        name="whole-number-mlp",
        model=model,
        batch=lambda generator: torch.randint(-3, 4, (2, 4, 3), generator=generator).float(),
        loss=lambda model, batch: (model(batch[0]) * batch[1]).sum(),
        optimizer=optimizer,
        blocks=lambda model: list(model.get_submodule("blocks").children()),
        tokens_per_batch=4,
    )


def train(strategy_name: str, workload: Workload, steps: int, precision: Precision = "fp32") -> list[Gradients]:
    """On a rank: train with new data in every step, and return the gradients of each step, whole."""
    platform, rank = current().platform, current().rank
    strategy, generator = get_strategy(strategy_name), rank_generator(SEED, rank)
    module = strategy.apply(build_model(workload, SEED), workload, platform.mesh(), platform.device(rank), precision)
    optimizer = workload.optimizer(module.parameters())
    taken: list[Gradients] = []

    def mark(phase: str) -> None:
        if phase == "backward":
            taken.append({name.removeprefix("module."): _whole_gradient(p) for name, p in module.named_parameters()})

    for _ in range(steps):
        strategy.step(module, workload, workload.batch(generator), optimizer, precision, mark)
    return taken


def differences(
    found: Sequence[Gradients], expected: Sequence[Gradients], bounds: Sequence[Mapping[str, Tensor]] | None = None
) -> list[Difference]:
    """Compare each parameter in each step, elementwise, with a bound of 0 where none is given."""
    result = []
    for step, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert mine.keys() == theirs.keys(), f"other parameters: {mine.keys() ^ theirs.keys()}"
        for name in theirs:
            error = (mine[name] - theirs[name]).abs()
            bound = bounds[step][name] if bounds else torch.zeros(())
            # A gradient that is not finite differs from everything.
            excess = torch.where(error <= bound, 0.0, torch.where(error.isfinite(), error - bound, torch.inf))
            result.append(
                Difference(step, name, error.max().item(), theirs[name].abs().max().item(), excess.max().item())
            )
    return result


def check_differences(by_rank: Sequence[Sequence[Difference]], what: str, expected: str, meaning: str) -> None:
    """Fail with the worst parameter, step and rank if any gradient of any rank is too far off; say how many are."""
    assert all(by_rank), "a rank compared nothing"
    failures = [(d.excess, rank, d) for rank, found in enumerate(by_rank) for d in found if not d.excess <= 0]
    if failures:
        _, rank, worst = max(failures, key=lambda failure: failure[0])
        compared = sum(map(len, by_rank))
        raise AssertionError(
            f"{what}: {len(failures)} of {compared} gradients (parameters x steps x {len(by_rank)} ranks) are off. "
            f"Worst: rank {rank}, step {worst.step}, {worst.parameter}: largest error {worst.error:.3g} in a gradient "
            f"of at most {worst.largest:.3g}, {expected} {meaning}"
        )


def _whole_gradient(parameter: nn.Parameter) -> Tensor:
    grad = parameter.grad
    assert grad is not None, "a parameter without a gradient"
    return grad.full_tensor() if isinstance(grad, DTensor) else grad.clone()


def _wrap_weights(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.add_(2).remainder_(5).sub_(2)
