"""Mixed precision is what it says: gathered in bfloat16, reduced and accumulated in float32, kept in float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from fixtures.meters.collectives import CollectivesMeter
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

CANCELLING = (256.0, 1.0, -256.0, 0.0)
"""Their sum is 1. bfloat16 has 8 significant bits, so there 256 + 1 is 256, and -256 + 1 is -255 but 1 - 256 + 256 is 0
or 1 depending on the order; float32 adds them exactly in any order."""


def sharded(module: nn.Module) -> FSDPModule:
    """Shard under the experiment's policy: parameters bfloat16, reduction float32."""
    for unit in (*module.children(), module):
        fully_shard(unit, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    assert isinstance(module, FSDPModule)
    return module


class Weight(nn.Module):
    """One weight, (4,): its gradient is the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        """(4,) -> scalar."""
        return (self.weight * x).sum()


def rotated(step: int) -> Tensor:
    """The cancelling values, begun at another one: over four steps each element sees them in a rotated order."""
    return torch.tensor(CANCELLING).roll(step)


def mean_over_ranks() -> Tensor:
    """On a rank: the gradient when each rank contributes one of the cancelling values to every element."""
    module = sharded(Weight())
    module(rotated(current().rank)).backward()  # type: ignore[operator]
    return whole_gradient(module)


def sum_over_micro_batches() -> Tensor:
    """On a rank: the gradient of four micro-batches, each with one of the values, of which only the last is synced."""
    module = sharded(Weight())
    for step in range(len(CANCELLING)):
        module.set_requires_gradient_sync(step == len(CANCELLING) - 1)
        module(rotated(step)).backward()  # type: ignore[operator]
    return whole_gradient(module)


def whole_gradient(module: FSDPModule) -> Tensor:
    """The gradient of the only parameter, whole, in its own dtype."""
    assert isinstance(module, Weight)
    assert isinstance(module.weight.grad, DTensor)
    return module.weight.grad.full_tensor()


def step_of_adam() -> tuple[list[tuple[str, str]], dict[str, set[torch.dtype]]]:
    """The collectives of one step as (kind, dtype), and the dtypes at rest, in compute and in the optimizer."""
    module = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    seen: set[torch.dtype] = set()
    module[0].register_forward_hook(lambda module, args, out: seen.update((args[0].dtype, out.dtype)))
    fsdp = sharded(module)
    optimizer = torch.optim.Adam(module.parameters())
    with CollectivesMeter() as meter:
        fsdp(torch.ones(2, 8)).sum().backward()  # type: ignore[operator]
    optimizer.step()
    parameters = list(module.parameters())
    states = [value for state in optimizer.state.values() for key, value in state.items() if key != "step"]
    dtypes = {
        "compute": seen,
        "masters": {p.dtype for p in parameters} | {p.to_local().dtype for p in parameters if isinstance(p, DTensor)},
        "gradients": {p.grad.dtype for p in parameters if p.grad is not None},
        "optimizer state": {state.dtype for state in states},
    }
    return [(event.kind, event.dtype) for event in meter.events], dtypes


def test_parameters_are_gathered_in_bfloat16() -> None:
    """Every all-gather's own message is bfloat16: half the bytes of the masters."""
    with playing_rank(0, 4):
        collectives, _ = step_of_adam()
    found = {dtype for kind, dtype in collectives if kind == "all-gather"}
    assert found == {"bfloat16"}, f"rank 0 of 4: all-gathers carry {found}, the policy says bfloat16"


def test_gradients_are_reduced_in_float32() -> None:
    """Every reduce-scatter's own message is float32, though the gradients were computed in bfloat16."""
    with playing_rank(0, 4):
        collectives, _ = step_of_adam()
    found = {dtype for kind, dtype in collectives if kind == "reduce-scatter"}
    assert found == {"float32"}, f"rank 0 of 4: reduce-scatters carry {found}, the policy says float32"


@pytest.mark.parametrize(
    ("what", "dtype"),
    [
        ("compute", torch.bfloat16),
        ("masters", torch.float32),
        ("gradients", torch.float32),
        ("optimizer state", torch.float32),
    ],
)
def test_each_tensor_has_its_dtype(what: str, dtype: torch.dtype) -> None:
    """Inputs and outputs in compute are bfloat16; masters, their gradients and Adam's moments are float32."""
    with playing_rank(0, 4):
        _, dtypes = step_of_adam()
    assert dtypes[what] == {dtype}, f"rank 0 of 4: {what} is {dtypes[what]}, expected {dtype}"


@pytest.mark.parametrize("added", [mean_over_ranks, sum_over_micro_batches])
def test_cancelling_values_leave_the_one(ranks: Callable[[int], RankPool], added: Callable[[], Tensor]) -> None:
    """256 + 1 - 256 is 1 over four ranks and over four micro-batches: whatever is added, is added in float32.

    Over the ranks the mean of 256, 1, -256 and 0 is 0.25, exactly. Each micro-batch is the same on every rank, so the
    mean over the ranks of their sum is 1.
    """
    world_size = 4 if added is mean_over_ranks else 2
    expected = torch.full((4,), 0.25 if added is mean_over_ranks else 1.0)
    for rank, found in enumerate(ranks(world_size).run(added)):
        assert found.equal(expected), (
            f"rank {rank} of {world_size}, {added.__name__}: gradients {found.tolist()}, expected {expected.tolist()}. "
            "Some sum was taken in bfloat16: look at reduce_dtype in fully_shard."
        )


def test_bfloat16_would_lose_the_one() -> None:
    """The control: added in bfloat16, one after the other, the same values do not sum to 1 in at least one order."""
    sums = set()
    for step in range(len(CANCELLING)):
        total = torch.zeros((), dtype=torch.bfloat16)
        for value in rotated(step).bfloat16():
            total += value
        sums.add(float(total))
    assert sums != {1.0}
