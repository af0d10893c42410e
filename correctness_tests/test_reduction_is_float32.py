"""In mixed precision FSDP2 computes gradients in bfloat16 and averages them in float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import nn

from correctness_tests.gradients import (
    SEED,
    Difference,
    Gradients,
    check_differences,
    differences,
    train,
    uneven_gpt2,
)
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.strategies import build_model, rank_generator
from fixtures.workloads import Workload

pytestmark = pytest.mark.cpu


def mean_of_bfloat16_gradients(workload: Workload) -> Gradients:
    """On a rank: each rank's own gradient, computed in bfloat16 by a bfloat16 copy of the model, averaged in float32.

    An oracle of the same dtype: it makes every rounding that FSDP2 must make and no other. The right answer is off by
    exactly 0 on two ranks (a + b = b + a, and halving is exact); a bfloat16 reduction is not.
    """
    model: nn.Module = build_model(workload, SEED).bfloat16()
    workload.loss(model, workload.batch(rank_generator(SEED, current().rank))).backward()  # type: ignore[no-untyped-call]
    means = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        mean = parameter.grad.float()
        dist.all_reduce(mean)
        means[name] = mean / dist.get_world_size()
    return means


def against_oracle(make: Callable[[], Workload]) -> list[Difference]:
    """On a rank: the gradients of FSDP2's first step against the oracle's."""
    return differences(train("fsdp2", make(), 1, "mixed"), [mean_of_bfloat16_gradients(make())])


def gradient_dtypes(make: Callable[[], Workload]) -> set[torch.dtype]:
    """On a rank: dtypes of FSDP2's gradients, as the optimizer gets them."""
    return {gradient.dtype for gradient in train("fsdp2", make(), 1, "mixed")[0].values()}


def check_reduction(pool: RankPool) -> None:
    """Fail unless every gradient on every rank is the float32 mean of the ranks' bfloat16 gradients, bit for bit."""
    check_differences(
        pool.run(against_oracle, uneven_gpt2),
        f"fsdp2 in mixed precision against the ranks' own bfloat16 gradients, {pool.platform.key}",
        "0 expected.",
        "An error near 2**-9 of the gradient is a reduction in bfloat16; a larger one a wrong compute dtype or scale. "
        "Next: correctness_tests/test_gradients_match_ddp.py, which has no bfloat16 in it.",
    )


def test_gradients_are_the_float32_mean_of_bfloat16_gradients(ranks: Callable[[int], RankPool]) -> None:
    """On two ranks FSDP2's gradients are the float32 mean of each rank's bfloat16 gradients, bit for bit."""
    check_reduction(ranks(2))


def test_the_optimizer_gets_float32_gradients(ranks: Callable[[int], RankPool]) -> None:
    """Every gradient is float32 when the optimizer takes its step, as the masters are."""
    assert ranks(2).run(gradient_dtypes, uneven_gpt2) == [{torch.float32}] * 2
