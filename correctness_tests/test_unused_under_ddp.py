"""DDP with a parameter that one iteration does not use: the error comes an iteration late (pytorch#128949)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch.nn.parallel import DistributedDataParallel

from correctness_tests.gradients import Gradients, check_differences, differences
from correctness_tests.variants import VARIANTS, Net, backward, batches, gradients_of, sgd_step, train_alone
from fixtures.ranks.failures import RanksFailedError
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

WORLD = 2


def train_with_unused(steps: int, find_unused: bool) -> Gradients:
    """On a rank: the gradients of the last step of a model whose spare parameters are never used."""
    ddp, found = DistributedDataParallel(Net("unused"), find_unused_parameters=find_unused), {}
    for (batch,) in batches(current().rank, VARIANTS["unused"], steps):
        backward(ddp, batch)
        found = gradients_of(ddp)
        sgd_step(ddp, lr=WORLD)
    return found


def check(pool: RankPool, find_unused: bool) -> None:
    """Fail unless the first step's gradients are one process's on every rank."""
    (truth,) = train_alone("unused", WORLD, 1).gradients
    check_differences(
        [differences([found], [truth]) for found in pool.run(train_with_unused, 1, find_unused)],
        f"DDP with unused parameters, find_unused_parameters={find_unused}, {pool.platform.key}",
        "0 expected, since no sum is rounded.",
        "Each rank has its own gradients: the bucket of an unused parameter is never reduced.",
    )


def test_used_parameters_are_reduced_when_ddp_looks_for_unused_ones(ranks: Callable[[int], RankPool]) -> None:
    """With find_unused_parameters the gradients of the parameters that are used are the mean."""
    check(ranks(WORLD), find_unused=True)


@pytest.mark.xfail(
    raises=AssertionError,
    reason="DDP waits for the unused parameters' part of a bucket and so does not reduce the bucket; backward returns, "
    "a step lets the ranks drift apart, and only the next forward raises (pytorch#128949)",
)
def test_used_parameters_are_reduced_by_default(ranks: Callable[[int], RankPool]) -> None:
    """Without it, the first backward gives the mean or an error."""
    check(ranks(WORLD), find_unused=False)


def test_the_next_iteration_names_the_cause(ranks: Callable[[int], RankPool]) -> None:
    """Without it, the second forward raises on the ranks and says that parameters were not used."""
    with pytest.raises(RanksFailedError, match=r"did not receive grad|not used in producing loss|finished reduction"):
        ranks(WORLD).run(train_with_unused, 2, False)
