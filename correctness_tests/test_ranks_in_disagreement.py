"""Ranks that disagree about the model, the branch or the batch get an error or the right answer, never a hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from correctness_tests.gradients import SEED, Gradients, check_differences, differences
from correctness_tests.variants import HIDDEN, WIDTH, gradients_of
from correctness_tests.versions import wrong_on_torch_2_9
from fixtures.models import MLPBlock
from fixtures.ranks.failures import RanksFailedError
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

WORLD = 2
DEADLINE_S = 1.0
"""Only a rank that waits for ever comes to it; the others fail at once."""

Units = Literal["each block", "one"]


class Branches(nn.Module):
    """Two blocks of whole numbers; the batch says on which of them it runs. (B, C) -> (B, C)."""

    def __init__(self, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(MLPBlock(WIDTH, hidden) for _ in range(2))
        generator = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))

    def forward(self, x: Tensor, order: tuple[int, ...]) -> Tensor:
        """Run the blocks of this order."""
        for i in order:
            x = self.blocks[i](x)
        return x


def build(units: Units, hidden: int = HIDDEN) -> Branches:
    """Shard it, each block a unit or all of it one."""
    net = Branches(hidden)
    for block in net.blocks if units == "each block" else ():
        fully_shard(block)
    fully_shard(net)
    return net


def batch(rank: int, rows: int = 4) -> Tensor:
    """Whole numbers, other ones on each rank."""
    return torch.randint(-3, 4, (rows, WIDTH), generator=torch.Generator().manual_seed(SEED + rank)).float()


def train(net: Branches, order: tuple[int, ...] = (0, 1), rows: int = 4) -> Gradients:
    """On a rank: the gradients of one batch of its own."""
    net(batch(current().rank, rows), order).sum().backward()
    return gradients_of(net)


def mean_of_own(orders: tuple[tuple[int, ...], ...], rows: tuple[int, ...] = (4, 4)) -> Gradients:
    """The mean over ranks of the gradient that each would have alone, 0 where a rank does not use a parameter."""
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in Branches().named_parameters()}
    for rank, order in enumerate(orders):
        net = Branches().double()
        net(batch(rank, rows[rank]).double(), order).sum().backward()
        for name, gradient in gradients_of(net).items():
            total[name] += gradient / len(orders)
    return total


def another_branch() -> Gradients:
    """On a rank: rank 1 leaves out a block that is a unit of its own."""
    return train(build("each block"), (0, 1) if current().rank == 0 else (0,))


def unused_within_a_unit() -> Gradients:
    """On a rank: rank 1 leaves out a block; the whole model is one unit."""
    return train(build("one"), (0, 1) if current().rank == 0 else (0,))


def another_module() -> Gradients:
    """On a rank: rank 1's blocks are wider."""
    return train(build("each block", HIDDEN * (1 + current().rank)))


def exception_in_forward() -> Gradients:
    """On a rank: rank 1 raises in the middle of its forward."""
    net = build("each block")
    if current().rank == 1:
        net.get_submodule("blocks.1.up").register_forward_hook(lambda *_: [][0])
    return train(net)


def no_backward() -> Gradients | None:
    """On a rank: rank 1 evaluates while rank 0 trains."""
    net = build("each block")
    if current().rank == 0:
        return train(net)
    with torch.no_grad():
        net(batch(1), (0, 1))
    return None


def another_batch_size() -> Gradients:
    """On a rank: rank 1 has fewer rows, which no collective depends on."""
    return train(build("each block"), rows=4 - current().rank)


def unused_but_asked_for_zeros() -> Gradients:
    """On a rank: rank 1 leaves out a block, and unused parameters are reduced as zeros."""
    net = build("one")
    assert isinstance(net, FSDPModule)
    net.set_reduce_scatter_unused_params(True)
    return train(net, (0, 1) if current().rank == 0 else (0,))


def blocks_in_another_order() -> Gradients:
    """On a rank: rank 1 runs the two blocks, which are of one shape, the other way round."""
    return train(build("each block"), (0, 1) if current().rank == 0 else (1, 0))


@pytest.mark.parametrize(
    "disagree", [another_branch, unused_within_a_unit, another_module, exception_in_forward, no_backward]
)
def test_disagreement_is_an_error_that_accounts_for_every_rank(
    ranks: Callable[[int], RankPool], disagree: Callable[[], object]
) -> None:
    """Where ranks can't go on together the job fails within the deadline, and says what became of each rank.

    A parameter used on some ranks only, by default, is pytorch#170667.
    """
    with pytest.raises(RanksFailedError) as failed:
        ranks(WORLD).run(disagree, deadline_s=DEADLINE_S)
    message = str(failed.value)
    for rank in range(WORLD):
        assert f"rank {rank} " in message, f"{disagree.__name__}: nothing on rank {rank} in: {message}"


def check_mean(pool: RankPool, disagree: Callable[[], Gradients], truth: Gradients) -> None:
    """Fail unless every rank has the mean of the ranks' own gradients, bit for bit."""
    check_differences(
        [differences([found], [truth]) for found in pool.run(disagree, deadline_s=DEADLINE_S)],
        f"{disagree.__name__}, {pool.platform.key}",
        "0 expected, since no sum is rounded.",
        "The ranks went on together and got something that is not the mean of their gradients.",
    )


def test_another_batch_size_still_gives_the_mean(ranks: Callable[[int], RankPool]) -> None:
    """With fewer rows on one rank the gradients are the mean of the ranks' own: each rank weighs the same."""
    check_mean(ranks(WORLD), another_batch_size, mean_of_own(((0, 1), (0, 1)), rows=(4, 3)))


@wrong_on_torch_2_9("FSDPModule has no set_reduce_scatter_unused_params yet")
def test_a_parameter_used_on_some_ranks_counts_as_zero_when_asked(ranks: Callable[[int], RankPool]) -> None:
    """set_reduce_scatter_unused_params, the answer to pytorch#170667, gives the mean with zeros for the others."""
    check_mean(ranks(WORLD), unused_but_asked_for_zeros, mean_of_own(((0, 1), (0,))))


@pytest.mark.xfail(
    raises=AssertionError,
    reason="gloo pairs collectives of one size whatever they carry, and FSDP2 does not compare units over ranks: "
    "each rank computes with the other block's rows, and nothing is raised (same kind as pytorch#170667)",
)
def test_blocks_in_another_order_are_no_quiet_wrong_result(ranks: Callable[[int], RankPool]) -> None:
    """Ranks that run two blocks of one shape in different orders get an error or the mean of their gradients."""
    try:
        check_mean(ranks(WORLD), blocks_in_another_order, mean_of_own(((0, 1), (1, 0))))
    except RanksFailedError:
        return
