"""Within one unit each parameter can be frozen, and have a learning rate and weight decay of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from correctness_tests.training import (
    Pair,
    check_same,
    shard_pair,
    train_plain,
    train_sharded,
    whole_parameters,
)
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

FROZEN = ("first.up", "first.bias", "second.down")
"""Half of each unit."""


class MixedDtypes(nn.Module):
    """A unit with a float32 and a bfloat16 parameter, (B, 2) -> (B,)."""

    def __init__(self, bfloat16_trains: bool) -> None:
        super().__init__()
        self.exact = nn.Parameter(torch.arange(10.0).view(5, 2))
        self.rough = nn.Parameter(torch.arange(6.0).view(3, 2).bfloat16(), requires_grad=bfloat16_trains)

    def forward(self, x: Tensor) -> Tensor:
        """Sum over the rows of both."""
        return (x @ self.exact.t()).sum(1) + (x.bfloat16() @ self.rough.t()).sum(1).float()


def frozen_pair() -> Pair:
    """A model of which half of each unit is frozen."""
    model = Pair()
    for name in FROZEN:
        model.get_parameter(name).requires_grad_(False)
    return model


def grouped(model: Pair) -> torch.optim.Optimizer:
    """SGD with a learning rate and a weight decay, powers of two, of each parameter's own."""
    groups = [
        {"params": [parameter], "lr": 2.0 ** -(6 + i), "weight_decay": 2.0 ** -(1 + i % 3)}
        for i, parameter in enumerate(p for p in model.parameters() if p.requires_grad)
    ]
    return torch.optim.SGD(groups)


def trained(make: Callable[[], Pair], steps: int) -> dict[str, Tensor]:
    """On a rank: the whole parameters after some steps with settings of their own."""
    model = shard_pair(make(), current().platform.mesh())
    return whole_parameters(train_sharded(model, grouped(model), steps, current().rank))


def check_settings(pool: RankPool, make: Callable[[], Pair], steps: int = 3) -> None:
    """Fail unless training with settings of each parameter's own gives the plain twin's parameters, bit for bit.

    Exact on two ranks: the twin does the same operations, and a + b = b + a.
    """
    model = make()
    expected = whole_parameters(train_plain(model, grouped(model), steps, pool.world_size))
    for rank, found in enumerate(pool.run(trained, make, steps)):
        where = f"rank {rank} of {pool.world_size}, after {steps} steps"
        check_same(found, expected, where, "A parameter lost a setting of its own, or got another's.")


def dtypes_after_step() -> dict[str, torch.dtype | None]:
    """On a rank: the gradient's dtype of each parameter of a unit of mixed dtypes, of which one is frozen."""
    model = MixedDtypes(bfloat16_trains=False)
    fully_shard(model, mesh=current().platform.mesh())
    model(torch.ones(1, 2)).sum().backward()
    return {name: None if p.grad is None else p.grad.dtype for name, p in model.named_parameters()}


def test_each_parameter_keeps_its_own_rate_and_decay(ranks: Callable[[int], RankPool]) -> None:
    """Six parameter groups of one parameter each train as on the plain model, over three steps."""
    check_settings(ranks(2), Pair)


def test_half_a_unit_can_be_frozen(ranks: Callable[[int], RankPool]) -> None:
    """With half of each unit frozen the rest trains as on the plain model, and the frozen half stays."""
    check_settings(ranks(2), frozen_pair)


def test_a_frozen_parameter_may_have_another_dtype(ranks: Callable[[int], RankPool]) -> None:
    """A unit may hold a frozen bfloat16 parameter beside a float32 one that trains in float32."""
    for found in ranks(2).run(dtypes_after_step):
        assert found == {"exact": torch.float32, "rough": None}


@pytest.mark.xfail(
    raises=AssertionError,
    reason="one reduce-scatter a unit, of one dtype: fully_shard refuses a unit whose trainable parameters differ in "
    "dtype, at the first forward ('expects uniform original parameter dtype'). Its parameters need units by dtype",
)
def test_parameters_that_train_may_differ_in_dtype() -> None:
    """A unit may hold a float32 and a bfloat16 parameter that both train."""
    with playing_rank(0, 2) as platform:
        model = MixedDtypes(bfloat16_trains=True)
        fully_shard(model, mesh=platform.mesh())
        model(torch.ones(1, 2)).sum().backward()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (frozen_pair, "uniform `requires_grad`"),
        (lambda: MixedDtypes(bfloat16_trains=False), "uniform dtype"),
    ],
    ids=["frozen", "dtype"],
)
def test_fsdp1_refuses_what_fsdp2_allows(make: Callable[[], nn.Module], message: str) -> None:
    """The contrast: FSDP1's flat parameter refuses a half frozen unit, and a unit of two dtypes."""
    with playing_rank(0, 2), pytest.raises(ValueError, match=message):
        FullyShardedDataParallel(make(), device_id=torch.device("cpu"), use_orig_params=False)


def test_fsdp1_has_one_learning_rate_a_unit() -> None:
    """The contrast: without its original parameters a unit of FSDP1 shows the optimizer one parameter, of 1 dimension.

    With ``use_orig_params=True`` it shows views of the flat one, so per-parameter settings need that care.
    """
    with playing_rank(0, 2):
        wrapped = FullyShardedDataParallel(Pair(), device_id=torch.device("cpu"), use_orig_params=False)
        assert [p.dim() for p in wrapped.parameters()] == [1]
