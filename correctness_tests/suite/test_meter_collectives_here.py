"""Property: in one process that plays rank 0 of 2 each collective is counted once, and what is computed stays as it is.

Each rank's part is 8 elements. Real ranks send the same in test_meter_collectives.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from fixtures.measurements import CollectiveTally
from fixtures.meters.collectives import CollectivesMeter
from fixtures.meters.controls import all_gather, reduce_scatter
from fixtures.platforms import Platform, playing_rank
from fixtures.torch_internals import functional

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def platform() -> Iterator[Platform]:
    """This process plays rank 0 of 2."""
    with playing_rank(0, 2) as played:
        yield played


def part() -> Tensor:
    """A rank's."""
    return torch.ones(8)


def whole() -> Tensor:
    """Both ranks'."""
    return torch.ones(16)


SENT: dict[str, tuple[Callable[[], object], tuple[str, str, int]]] = {
    "all_gather of one tensor": (lambda: all_gather(whole(), part()), ("all-gather", "float32", 64)),
    "all_gather": (lambda: dist.all_gather([part(), part()], part()), ("all-gather", "float32", 64)),
    "reduce_scatter": (
        lambda: reduce_scatter(part().bfloat16(), whole().bfloat16()),
        ("reduce-scatter", "bfloat16", 32),
    ),
    "all_reduce": (lambda: dist.all_reduce(part().double()), ("all-reduce", "float64", 64)),
    "broadcast": (lambda: dist.broadcast(part(), 0), ("broadcast", "float32", 32)),
    "all_to_all": (lambda: dist.all_to_all_single(whole(), torch.ones(16)), ("all-to-all", "float32", 64)),
    "barrier": (dist.barrier, ("barrier", "none", 0)),
}


@pytest.mark.parametrize("name", SENT)
def test_a_collective_is_counted_with_its_message(name: str) -> None:
    """Output of a gather, input of a reduction: the whole message, in its dtype."""
    send, (kind, dtype, size) = SENT[name]
    meter = CollectivesMeter()
    meter.start()
    send()
    assert meter.stop() == [CollectiveTally(kind=kind, dtype=dtype, count=1, bytes=size)]


@pytest.mark.filterwarnings("ignore:.*all_gather_tensor:FutureWarning")  # torch 2.9 has it under no other name
def test_a_functional_collective_is_counted_by_its_result(platform: Platform) -> None:
    """A gather's message is what comes out: 16 bfloat16 of 8."""
    group = platform.mesh().get_group()
    with CollectivesMeter() as meter:
        functional.all_gather_tensor(part().bfloat16(), 0, group) + 0
        functional.all_reduce(part(), "sum", group) + 0
    assert [(event.kind, event.dtype, event.bytes) for event in meter.events] == [
        ("all-gather", "bfloat16", 32),
        ("all-reduce", "float32", 32),
    ]


def test_an_unknown_operator_counts_by_its_largest_value() -> None:
    """Where that is what it returns: 3 float64 made of one float32, and both dtypes where they lie in one list."""
    grow = torch.library.custom_op("shardgate_c10d::grow", _grow, mutates_args=())
    mix = torch.library.custom_op("shardgate_c10d::mix", _mix, mutates_args=())
    with CollectivesMeter() as meter:
        grow(torch.ones(1))
        mix([torch.ones(1), torch.ones(2, dtype=torch.float64)])
    assert [(event.kind, event.dtype, event.bytes) for event in meter.events] == [
        ("shardgate_c10d::grow", "float64", 24),
        ("shardgate_c10d::mix", "float32+float64", 20),
    ]


def test_an_overload_is_of_its_operators_kind() -> None:
    """An operator that is known keeps its kind under another signature."""
    library = torch.library.Library("shardgate_c10d", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("broadcast_.twice(Tensor tensor) -> Tensor")  # type: ignore[no-untyped-call]
    library.impl("broadcast_.twice", torch.clone, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    with CollectivesMeter() as meter:
        torch.ops.shardgate_c10d.broadcast_.twice(part())
    assert [(event.kind, event.bytes) for event in meter.events] == [("broadcast", 32)]


def _grow(small: Tensor) -> Tensor:
    return torch.ones(3, dtype=torch.float64)


def _mix(parts: list[Tensor]) -> Tensor:
    return torch.ones(1)


def test_messages_are_added_by_kind_and_dtype() -> None:
    """Sorted by both; how many, and the bytes of all."""
    meter = CollectivesMeter()
    meter.start()
    for tensor in (part(), part().double(), whole(), part()):
        dist.all_reduce(tensor)
    all_gather(whole(), part())
    tallies = meter.stop()
    assert tallies == [
        CollectiveTally(kind="all-gather", dtype="float32", count=1, bytes=64),
        CollectiveTally(kind="all-reduce", dtype="float32", count=3, bytes=32 + 64 + 32),
        CollectiveTally(kind="all-reduce", dtype="float64", count=1, bytes=64),
    ]


def test_what_is_sent_while_nobody_watches_is_not_counted() -> None:
    """Before the first start nothing is; after a stop the tallies stay, and a new start forgets them."""
    meter = CollectivesMeter()
    assert meter.tallies() == []
    meter.start()
    dist.barrier()
    stopped = meter.stop()
    dist.all_reduce(part())
    assert meter.tallies() == stopped
    meter.start()
    assert meter.stop() == []


def test_operators_keep_their_arguments() -> None:
    """By keyword too: a float64 stays one."""
    with CollectivesMeter():
        made = torch.ones(3, dtype=torch.float64)
    assert made.dtype == torch.float64
