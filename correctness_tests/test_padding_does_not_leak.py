"""Uneven shards are padded to a common length, and nothing ever reads the padding: it may be NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from correctness_tests.training import (
    Pair,
    backward,
    check_same,
    local,
    padding_poisoned,
    shard_pair,
    whole,
    whole_parameters,
)
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

MEANING = "The padding of this unit's shards was filled with NaN: something reads beyond the rank's rows."
LR, MOMENTUM = 2.0**-6, 0.5


@dataclass
class Step:
    """One step of SGD with momentum: gradients, 1-norms of parameters and gradients, parameters, momentum, padding."""

    gradients: dict[str, Tensor] = field(default_factory=dict)
    norms: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict[str, Tensor] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    held: int = 0
    padding: int = 0


def finish(model: Pair, poisoned: int) -> Step:
    """Norms, a step and what it left, of a model that has its gradients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    step = Step(padding=poisoned)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        step.gradients[name] = whole(parameter.grad)
        # The 1-norm of whole multiples of a power of two is exact in any order, unlike the 2-norm's square root.
        step.norms[name] = whole(torch.linalg.vector_norm(parameter.detach(), ord=1))
        step.norms[f"{name}.grad"] = whole(torch.linalg.vector_norm(parameter.grad, ord=1))
    optimizer.step()
    step.parameters = whole_parameters(model)
    step.state = {name: whole(optimizer.state[p]["momentum_buffer"]) for name, p in model.named_parameters()}
    step.held = sum(local(p).numel() for p in model.parameters())
    return step


def poisoned_step() -> Step:
    """On a rank: a step whose shards' padding is NaN from the start."""
    model = shard_pair(Pair(), current().platform.mesh())
    with padding_poisoned(model) as count:
        backward(model, 0, current().rank)
        return finish(model, count)


def plain_step(world_size: int) -> Step:
    """The same step in one process, on gradients averaged over the ranks' batches."""
    model = Pair()
    for rank in range(world_size):
        backward(model, 0, rank)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad /= world_size
    return finish(model, 0)


def poisoned_total_norm() -> float:
    """On a rank: what clipping by the global norm returns, with NaN in the padding."""
    model = shard_pair(Pair(), current().platform.mesh())
    with padding_poisoned(model):
        backward(model, 0, current().rank)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert isinstance(norm, DTensor)
    return float(norm.full_tensor())


def check_padding(pool: RankPool) -> None:
    """Fail unless a step with NaN in the padding is the plain step, bit for bit, on every rank."""
    expected, found = plain_step(pool.world_size), pool.run(poisoned_step)
    assert sum(step.padding for step in found) > 0, "no shard had padding: nothing was tested"
    for rank, step in enumerate(found):
        for what in ("gradients", "norms", "parameters", "state"):
            where = f"rank {rank} of {pool.world_size}, {what}"
            check_same(getattr(step, what), getattr(expected, what), where, MEANING)
    held = sum(step.held for step in found)
    assert held == expected.held, f"the ranks hold {held} elements together, the model has {expected.held}"


@pytest.mark.xfail(
    raises=RuntimeError,
    reason="DTensor takes the local minimum or maximum of a shard of no rows, which torch refuses: one rank raises and "
    "the others wait for it in the reduction (the refusal: pytorch/pytorch#71629)",
)
def test_a_shard_without_rows_has_no_say_in_the_minimum() -> None:
    """The rank that holds no row of a parameter can take part in its minimum and maximum over all rows."""
    with playing_rank(3, 4) as platform:
        model = shard_pair(Pair(), platform.mesh())
        model.first.bias.detach().amin()


@pytest.mark.parametrize("world_size", [2, 4])
def test_padding_leaks_into_nothing(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """With NaN in the padding, gradients, norms, new parameters and momentum equal the plain model's, bit for bit."""
    check_padding(ranks(world_size))


def test_padding_is_not_in_the_total_norm(ranks: Callable[[int], RankPool]) -> None:
    """The norm that clipping goes by is the same number on every rank, that of the plain gradients, NaN or not.

    Each of the 6 parameters' norms, and theirs, is a sum of at most 30 squares under a square root, over 4 ranks: less
    than 64 roundings of 2**-24 each.
    """
    model = Pair()
    for rank in range(4):
        backward(model, 0, rank)
    gradients = [p.grad / 4 for p in model.parameters() if p.grad is not None]
    expected = float(torch.linalg.vector_norm(torch.cat([g.flatten() for g in gradients]).double()))
    found = ranks(4).run(poisoned_total_norm)
    assert len(set(found)) == 1, f"the ranks disagree about the total norm: {found}"
    assert found[0] == pytest.approx(expected, rel=64 * 2.0**-24), f"total norm {found[0]}, expected {expected}"
