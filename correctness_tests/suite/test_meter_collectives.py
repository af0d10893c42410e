"""Property: every collective is counted once, with its kind, its dtype and the bytes of the whole message."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from fixtures.measurements import CollectiveTally
from fixtures.meters.collectives import CollectiveEvent, CollectivesMeter
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.torch_internals import functional, wait_for_functional

pytestmark = pytest.mark.cpu

BF16 = torch.bfloat16


def issue(name: str) -> None:
    """Issue the named collective on 2 ranks: each rank's part is 8 elements."""
    world, rank = dist.get_world_size(), dist.get_rank()
    one, all_, pieces = torch.ones(8), torch.ones(8 * world), [torch.ones(8) for _ in range(world)]
    group = current().platform.mesh().get_group()
    COLLECTIVES: dict[str, Callable[[], object]] = {  # noqa: N806
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(all_, one),
        "all_gather": lambda: dist.all_gather(pieces, one),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(one.to(BF16), all_.to(BF16)),
        "reduce_scatter": lambda: dist.reduce_scatter(one, pieces),
        "all_reduce": lambda: dist.all_reduce(one.double()),
        "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([one, torch.ones(3)]),
        "broadcast": lambda: dist.broadcast(one, src=0),
        "reduce": lambda: dist.reduce(one, dst=0),
        "scatter": lambda: dist.scatter(one, pieces if rank == 0 else None, src=0),
        "gather": lambda: dist.gather(one, pieces if rank == 0 else None, dst=0),
        "all_to_all_single": lambda: dist.all_to_all_single(all_, torch.ones(8 * world)),
        "barrier": dist.barrier,
        "functional all_reduce": lambda: functional.all_reduce(one, "sum", group) + 0,
        "functional all_gather": lambda: functional.all_gather_tensor(one.to(BF16), 0, group) + 0,
        "functional reduce_scatter": lambda: functional.reduce_scatter_tensor(all_, "sum", 0, group) + 0,
        "DTensor redistribute": lambda: distribute_tensor(
            torch.ones(8 * world), current().platform.mesh(), [Shard(0)], src_data_rank=None
        ).redistribute(placements=[Replicate()]),
    }
    result = COLLECTIVES[name]()
    if isinstance(result, torch.Tensor) and hasattr(result, "to_local"):
        result.to_local().sum()


KNOWN = {
    "all_gather_into_tensor": ("all-gather", "float32", 64),
    "all_gather": ("all-gather", "float32", 64),
    "reduce_scatter_tensor": ("reduce-scatter", "bfloat16", 32),
    "reduce_scatter": ("reduce-scatter", "float32", 64),
    "all_reduce": ("all-reduce", "float64", 64),
    "all_reduce_coalesced": ("all-reduce", "float32", 44),
    "broadcast": ("broadcast", "float32", 32),
    "reduce": ("reduce", "float32", 32),
    "scatter": ("scatter", "float32", 32),
    "gather": ("gather", "float32", 32),
    "all_to_all_single": ("all-to-all", "float32", 64),
    "barrier": ("barrier", "none", 0),
    "functional all_reduce": ("all-reduce", "float32", 32),
    "functional all_gather": ("all-gather", "bfloat16", 32),
    "functional reduce_scatter": ("reduce-scatter", "float32", 64),
    "DTensor redistribute": ("all-gather", "float32", 64),
}


def events_of(names: list[str]) -> dict[str, list[CollectiveEvent]]:
    """Issue each collective under a meter of its own."""
    events = {}
    for name in names:
        with CollectivesMeter() as meter:
            issue(name)
        events[name] = meter.events
    return events


def test_each_collective_is_counted_once_with_its_message(ranks: Callable[[int], RankPool]) -> None:
    """Kind, dtype and bytes of every collective that training uses, on both ranks; functional ones not twice."""
    known = {name: [CollectiveEvent(*message)] for name, message in KNOWN.items()}
    assert ranks(2).run(events_of, list(KNOWN)) == [known, known]


def ddp_step() -> list[CollectiveTally]:
    """The third step of DDP over 20 elements: the second also rebuilds its buckets."""
    model = DistributedDataParallel(torch.nn.Linear(3, 5), gradient_as_bucket_view=True)
    meter = CollectivesMeter()
    tallies: list[CollectiveTally] = []
    for _ in range(3):
        meter.start()
        model(torch.ones(2, 3)).sum().backward()
        tallies = meter.stop()
    return tallies


def test_what_ddps_reducer_issues_is_seen(ranks: Callable[[int], RankPool]) -> None:
    """The reducer is C++ and runs inside backward; its all-reduce of 20 float32 gradients counts."""
    known = [CollectiveTally(kind="all-reduce", dtype="float32", count=1, bytes=80)]
    assert ranks(2).run(ddp_step) == [known, known]


def ordered() -> tuple[list[CollectiveEvent], list[CollectiveTally]]:
    """Three collectives of two kinds, after one that an earlier use of the same meter saw."""
    meter = CollectivesMeter()
    with meter:
        dist.barrier()
    with meter:
        dist.all_reduce(torch.ones(1))
        dist.all_gather_into_tensor(torch.ones(dist.get_world_size()), torch.ones(1))
        dist.all_reduce(torch.ones(2))
    dist.barrier()
    return meter.events, meter.tallies()


def test_events_keep_the_order_and_tallies_sum(ranks: Callable[[int], RankPool]) -> None:
    """Events are in the order of issue; tallies are sorted; what came before or after the meter is in neither."""
    events, tallies = ranks(2).run(ordered)[0]
    assert events == [
        CollectiveEvent("all-reduce", "float32", 4),
        CollectiveEvent("all-gather", "float32", 8),
        CollectiveEvent("all-reduce", "float32", 8),
    ]
    assert tallies == [
        CollectiveTally(kind="all-gather", dtype="float32", count=1, bytes=8),
        CollectiveTally(kind="all-reduce", dtype="float32", count=2, bytes=12),
    ]


def _swap(small: torch.Tensor, large: list[torch.Tensor]) -> torch.Tensor:
    return small.clone()


def test_an_unknown_operator_counts_under_its_own_name() -> None:
    """A collective that a later torch adds is not lost: its name, and the bytes of its largest argument."""
    swap = torch.library.custom_op("shardgate_c10d::swap", _swap, mutates_args=())
    with CollectivesMeter() as meter:
        swap(torch.ones(1), [torch.ones(4), torch.ones(4)])
    assert meter.events == [CollectiveEvent("shardgate_c10d::swap", "float32", 32)]


def test_local_operators_are_not_collectives() -> None:
    """Arithmetic, and what only waits or checks, counts for nothing."""
    with CollectivesMeter() as meter:
        wait_for_functional(torch.ones(2) + 1)
    assert meter.events == []
