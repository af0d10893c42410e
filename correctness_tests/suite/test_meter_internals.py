"""Property: each private name of torch that the suite leans on does what the suite takes it to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from fixtures.torch_internals import (
    DispatchMode,
    fake_store,
    finished_work,
    has_wrapper,
    missing_flop_formulas,
    to_work,
    wait_for_functional,
)

pytestmark = pytest.mark.cpu


@pytest.fixture
def fake_group() -> Iterator[None]:
    """This process as rank 3 of 8, over a group that moves nothing."""
    dist.init_process_group("fake", store=fake_store(), rank=3, world_size=8)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("fake_group")
def test_the_fake_store_makes_a_group_of_any_size() -> None:
    """One process is rank 3 of 8, and a collective returns at once."""
    dist.all_reduce(torch.ones(2))
    assert (dist.get_rank(), dist.get_world_size()) == (3, 8)


def test_dtensor_is_a_wrapper_and_a_parameter_is_not() -> None:
    """What unwraps itself is told from what holds memory."""
    assert has_wrapper([torch.Tensor, DTensor])
    assert not has_wrapper([torch.Tensor, torch.nn.Parameter])


def test_finished_work_is_done_and_holds_its_result() -> None:
    """A box that unpacks to work which is complete, waits for nothing and gives its result."""
    tensor = torch.ones(2)
    work = to_work(finished_work([tensor]))
    assert work is not None
    assert work.is_completed()
    work.wait()
    assert work.get_future().value()[0] is tensor


def test_what_is_no_work_is_no_work() -> None:
    """Tensors and None, which operators return too, unpack to None."""
    assert to_work(torch.ones(1)) is None
    assert to_work(None) is None


def test_waiting_for_a_plain_tensor_returns_it() -> None:
    """A tensor that no functional collective made is ready."""
    tensor = torch.ones(2)
    assert wait_for_functional(tensor) is tensor


def test_a_dispatch_mode_sees_operators() -> None:
    """The base of both meters: each operator by its namespace and name, inside the context only."""
    seen: list[str] = []

    class Sees(DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(f"{func.namespace}::{func.__name__}")
            return func(*args, **(kwargs or {}))

    with Sees():
        torch.ones(2)
    torch.zeros(2)
    assert seen == ["aten::ones.default"]


def test_attention_on_the_cpu_counts_its_flops() -> None:
    """Forward counts its two products, whole; backward five, as flash attention does, which recomputes the scores."""
    query = torch.ones(2, 3, 8, 4, requires_grad=True)
    with FlopCounterMode(display=False, custom_mapping=missing_flop_formulas()) as counter:
        out = scaled_dot_product_attention(query, query, query, is_causal=True)
        forward = counter.get_total_flops()
        out.sum().backward()  # type: ignore[no-untyped-call]
    product = 2 * (2 * 3) * 8 * 8 * 4
    assert (forward, counter.get_total_flops() - forward) == (2 * product, 5 * product)
