"""The optimizer's state lies as the parameters do: a DTensor a parameter, the same rows, the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from correctness_tests.modules import rows_of_rank
from correctness_tests.training import Pair, shard_pair, train_plain, train_sharded
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "momentum": (partial(torch.optim.SGD, lr=2.0**-6, momentum=0.5), ("momentum_buffer",)),
    "adamw": (partial(torch.optim.AdamW, lr=2.0**-6), ("exp_avg", "exp_avg_sq")),
}
"""Optimizers with the names of what they keep in the parameter's shape."""


@dataclass
class State:
    """One tensor of the optimizer's state on a rank, beside its parameter."""

    same_placement: bool
    dtype: torch.dtype
    global_shape: tuple[int, ...]
    rows: Tensor


def state_of_this_rank(optimizer_name: str, steps: int) -> dict[str, State]:
    """On a rank: the state after some steps, by parameter and name."""
    make, keys = OPTIMIZERS[optimizer_name]
    model = shard_pair(Pair(), current().platform.mesh())
    optimizer = make(model.parameters())
    train_sharded(model, optimizer, steps, current().rank)
    found = {}
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, DTensor)
        for key in keys:
            value = optimizer.state[parameter][key]
            sharded = isinstance(value, DTensor)
            same = sharded and (value.placements, value.device_mesh) == (parameter.placements, parameter.device_mesh)
            rows = value.to_local() if sharded else value
            found[f"{name}.{key}"] = State(same, value.dtype, tuple(value.shape), rows.detach().clone())
    return found


def check_state(pool: RankPool, optimizer_name: str, steps: int = 2) -> None:
    """Fail unless each rank keeps state for its own rows only, as float32 DTensors, equal to the plain twin's rows.

    Bit for bit on two ranks: the optimizer works element by element and the gradients are the twin's (a + b = b + a).
    """
    make, keys = OPTIMIZERS[optimizer_name]
    model = Pair()
    optimizer = make(model.parameters())
    train_plain(model, optimizer, steps, pool.world_size)
    for rank, found in enumerate(pool.run(state_of_this_rank, optimizer_name, steps)):
        for name, parameter in model.named_parameters():
            for key in keys:
                state, where = found[f"{name}.{key}"], f"rank {rank} of {pool.world_size}, {key} of {name}"
                expected = rows_of_rank(optimizer.state[parameter][key], rank, pool.world_size)
                assert state.same_placement, (
                    f"{where}: not placed as the parameter is; {state.rows.numel()} elements held, "
                    f"{expected.numel()} expected. Replicated state costs N times the memory."
                )
                assert state.global_shape == tuple(parameter.shape), f"{where}: global shape {state.global_shape}"
                assert state.dtype == torch.float32, f"{where}: {state.dtype}, masters and state are float32"
                assert torch.equal(state.rows, expected), (
                    f"{where}: {state.rows.tolist()}, expected the plain model's rows {expected.tolist()}"
                )


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_state_is_the_plain_models_rows(ranks: Callable[[int], RankPool], optimizer_name: str) -> None:
    """On two ranks, after two steps, each rank keeps the plain optimizer's state of its rows, as DTensors."""
    check_state(ranks(2), optimizer_name)
