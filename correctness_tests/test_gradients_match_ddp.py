"""FSDP2's gradients are DDP's: every parameter, several SGD steps, other data on every rank, uneven shapes, float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from correctness_tests.gradients import (
    UNIT_ROUNDOFF,
    WHOLE_NUMBER_LIMIT,
    Difference,
    check_differences,
    differences,
    train,
    uneven_gpt2,
    whole_number_mlp,
)
from fixtures.ranks.pool import RankPool
from fixtures.workloads import Workload

pytestmark = pytest.mark.cpu

MEANING = (
    "Both arms saw the same data and weights, so the reduction, its scale or a gathered weight is wrong. "
    "A wrong scale shows as a constant factor; a stale weight only from step 1 on. "
    "Next: correctness_tests/test_whole_rows.py, then the release notes of torch for fully_shard and DDP."
)


def against_ddp(make: Callable[[], Workload], strategy: str, steps: int) -> list[Difference]:
    """On a rank: the gradients of a strategy against DDP's, bit for bit."""
    return differences(train(strategy, make(), steps), train("ddp", make(), steps))


def against_ddp_within_rounding(make: Callable[[], Workload], strategy: str) -> list[Difference]:
    """On a rank: the gradients of the first step against DDP's, up to the rounding of two means over N ranks.

    A mean over N is N rounded operations an element in either arm, one division and N - 1 additions in any order,
    each off by at most u = 2**-24 of a partial sum, which is at most sum |g_r| / N. The two means differ by at most
    2 u sum |g_r| to first order; (N + 1) / N of that covers the higher orders. Later steps start from other weights.
    """
    (own,) = train("single", make(), steps=1)
    bound = {}
    for name, gradient in own.items():
        magnitude = gradient.abs()
        dist.all_reduce(magnitude)
        bound[name] = 2 * UNIT_ROUNDOFF * (1 + 1 / dist.get_world_size()) * magnitude
    return differences(train(strategy, make(), 1), train("ddp", make(), 1), [bound])


def own_against_ddp(make: Callable[[], Workload]) -> list[Difference]:
    """On a rank: this rank's own gradients against DDP's, as they would be if nothing were reduced."""
    return differences(train("single", make(), 1), train("ddp", make(), 1))


def ddp_sums(make: Callable[[], Workload], steps: int) -> torch.Tensor:
    """On a rank: every gradient element of every step of DDP, summed over ranks rather than averaged, 1-D."""
    gradients = [g.flatten() for step in train("ddp", make(), steps) for g in step.values()]
    return torch.cat(gradients) * dist.get_world_size()


def check_exact(pool: RankPool, make: Callable[[], Workload], strategy: str, steps: int) -> None:
    """Fail unless every gradient of every step and rank is DDP's, bit for bit."""
    check_differences(
        pool.run(against_ddp, make, strategy, steps),
        f"{strategy} against ddp, {make.__name__}, {pool.platform.key}",
        "0 expected, since no sum is rounded here or both arms round alike.",
        MEANING,
    )


@pytest.mark.parametrize("strategy", ["fsdp2", "fsdp2-noreshard"])
@pytest.mark.parametrize("world_size", [2, 4])
def test_whole_number_gradients_are_ddps_bit_for_bit(
    ranks: Callable[[int], RankPool], world_size: int, strategy: str
) -> None:
    """Where no sum is rounded, in a power-of-two world, four steps' gradients equal DDP's bit for bit."""
    check_exact(ranks(world_size), whole_number_mlp, strategy, steps=4)


def test_gpt2_gradients_on_two_ranks_are_ddps_bit_for_bit(ranks: Callable[[int], RankPool]) -> None:
    """On two ranks, where a + b = b + a and halving is exact, GPT-2's gradients equal DDP's too, embedding included."""
    check_exact(ranks(2), uneven_gpt2, "fsdp2", steps=3)


@pytest.mark.parametrize("world_size", [3, 4])
def test_gpt2_gradients_are_ddps_within_rounding(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """On three and four ranks, where the order of additions shows, GPT-2's gradients equal DDP's up to rounding."""
    check_differences(
        ranks(world_size).run(against_ddp_within_rounding, uneven_gpt2, "fsdp2"),
        f"fsdp2 against ddp, uneven_gpt2, {world_size} ranks",
        "more than the rounding of two means over the ranks.",
        MEANING,
    )


def test_ranks_have_data_of_their_own(ranks: Callable[[int], RankPool]) -> None:
    """The control: a rank's own gradients are not DDP's, so equality above proves that a reduction took place."""
    for rank, found in enumerate(ranks(2).run(own_against_ddp, whole_number_mlp)):
        assert max(d.error for d in found) > 0, (
            f"rank {rank} of 2: its own gradients are the mean: all ranks have its data"
        )


def test_whole_number_gradients_are_whole_and_small(ranks: Callable[[int], RankPool]) -> None:
    """The control: the exact workload's gradients are whole numbers within their limit, in every step."""
    for sums in ranks(4).run(ddp_sums, whole_number_mlp, 4):
        assert torch.equal(sums, sums.round())
        assert 0 < sums.abs().max() <= WHOLE_NUMBER_LIMIT
