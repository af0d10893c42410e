"""Each collective that sharding stands on, by itself, with other data on every rank: before any test that uses it.

gloo once turned an average into a sum without a word (pytorch#162338); every sharded gradient was then off by N.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp

from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

REDUCTIONS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "max": ReduceOp.MAX, "min": ReduceOp.MIN}
BY_HAND: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda stacked: stacked.sum(0),
    "avg": lambda stacked: stacked.sum(0) / len(stacked),
    "max": lambda stacked: stacked.amax(0),
    "min": lambda stacked: stacked.amin(0),
}
DTYPES = [torch.float32, torch.bfloat16]


def data(rank: int, world_size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Two small whole numbers for each rank, other ones on every rank: exact in bfloat16, and so is their mean."""
    return (torch.arange(2 * world_size) * (1 - 2 * (rank % 2)) + 4 * rank).to(dtype)


def reduced(op: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """On a rank: an all-reduce and a reduce-scatter of the same data."""
    rank, world_size = current().rank, current().world_size
    everywhere, mine = data(rank, world_size, dtype), torch.empty(2, dtype=dtype)
    dist.reduce_scatter_tensor(mine, everywhere.clone(), op=REDUCTIONS[op])
    dist.all_reduce(everywhere, op=REDUCTIONS[op])
    return everywhere, mine


def moved() -> dict[str, Tensor]:
    """On a rank: what each collective that only moves data has brought it."""
    rank, world_size = current().rank, current().world_size
    mine, last = data(rank, world_size), world_size - 1
    found = {name: torch.empty_like(mine) for name in ("broadcast", "all-to-all")}
    found["all-gather"] = torch.empty(world_size * len(mine))
    dist.all_gather_into_tensor(found["all-gather"], mine)
    found["broadcast"].copy_(mine)
    dist.broadcast(found["broadcast"], src=last)
    dist.all_to_all_single(found["all-to-all"], mine)
    found["scatter"] = torch.empty(2)
    dist.scatter(found["scatter"], list(mine.chunk(world_size)) if rank == last else None, src=last)
    pieces = [torch.empty_like(mine) for _ in range(world_size)]
    dist.gather(mine, pieces if rank == last else None, dst=last)
    found["gather"] = torch.cat(pieces) if rank == last else torch.empty(0)
    return found


def expect(found: Tensor, expected: Tensor, rank: int, world_size: int, what: str) -> None:
    """Fail unless a rank got exactly this."""
    assert found.equal(expected), (
        f"rank {rank} of cpu-gloo-{world_size}, {what}: got {found.tolist()}, expected {expected.tolist()}. "
        "Every sharded result stands on it, so believe this failure before any other."
    )


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_are_those_by_hand(
    ranks: Callable[[int], RankPool], op: str, dtype: torch.dtype, world_size: int
) -> None:
    """All-reduce and reduce-scatter give what stacking the ranks' data and reducing it by hand gives, exactly."""
    expected = BY_HAND[op](torch.stack([data(rank, world_size) for rank in range(world_size)])).to(dtype)
    for rank, (everywhere, mine) in enumerate(ranks(world_size).run(reduced, op, dtype)):
        expect(everywhere, expected, rank, world_size, f"all-reduce {op} of {dtype}")
        expect(mine, expected[2 * rank : 2 * rank + 2], rank, world_size, f"reduce-scatter {op} of {dtype}")


@pytest.mark.parametrize("world_size", [2, 4])
def test_movers_move_each_ranks_own_data(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """All-gather, gather, broadcast, scatter and all-to-all bring each rank the pieces meant for it, in rank order."""
    sent = [data(rank, world_size) for rank in range(world_size)]
    for rank, found in enumerate(ranks(world_size).run(moved)):
        own = slice(2 * rank, 2 * rank + 2)
        expected = {
            "all-gather": torch.cat(sent),
            "broadcast": sent[-1],
            "all-to-all": torch.cat([tensor[own] for tensor in sent]),
            "scatter": sent[-1][own],
            "gather": torch.cat(sent) if rank == world_size - 1 else torch.empty(0),
        }
        for what, tensor in expected.items():
            expect(found[what], tensor, rank, world_size, what)


def test_every_rank_sends_something_else() -> None:
    """The control: no two of four ranks send the same, and no reduction of them equals another."""
    sent = torch.stack([data(rank, 4) for rank in range(4)])
    assert len({tuple(row.tolist()) for row in sent}) == 4
    results = [tuple(by_hand(sent).tolist()) for by_hand in BY_HAND.values()]
    assert len(set(results)) == len(results)
