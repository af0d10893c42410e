"""Property: a census puts each storage down to the operator, the function and the unit that took it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from fixtures.meters.census import OTHERS, Birth, Census
from fixtures.meters.memory import CpuMemoryMeter

pytestmark = pytest.mark.cpu

ZEROS = "aten.zeros.default"
Call = Callable[[], Any]


def function(name: str, file: str = "torchs.py", **local: object) -> Callable[[Call], Any]:
    """A function of that name, in a file of that name and with these variables, that returns what it calls."""
    made: dict[str, Any] = {}
    exec(compile(f"def {name}({', '.join(['call', *local])}):\n    return call()", f"/elsewhere/{file}", "exec"), made)
    return partial(made[name], **local)


def zeros(size: int = 4) -> Call:
    """Takes that many bytes, without a frame of its own on the stack."""
    return partial(torch.zeros, size, dtype=torch.uint8)


def births(*calls: Call) -> dict[Birth, int]:
    """What the census says of all that these calls, one after the other, return."""
    meter = CpuMemoryMeter(census := Census())
    with meter.watch():
        kept = [call() for call in calls]
        found = census.alive()
    del kept
    return dict(found)


class Doubled(torch.autograd.Function):
    """Twice a tensor; its backward takes memory of its own through ``through``."""

    @staticmethod
    def forward(ctx: Any, through: Callable[[Call], Any], tensor: torch.Tensor) -> torch.Tensor:
        """Not watched."""
        ctx.through = through
        return tensor * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """The gradient is memory that ``through`` takes."""
        return None, ctx.through(partial(torch.zeros, 4))


def gradient_through(through: Callable[[Call], Any]) -> Birth:
    """Who made the gradient of a tensor whose backward takes its memory through ``through``."""
    weight = torch.ones(4, requires_grad=True)
    loss = Doubled.apply(through, weight).sum()  # type: ignore[no-untyped-call]
    return max(births(loss.backward, lambda: weight.grad), key=lambda birth: birth.operator == ZEROS)


def test_a_function_of_torchs_has_the_ledgers_name() -> None:
    """What the optimizer takes for its state is booked so, with operator, file and function."""
    assert births(lambda: function("_init_group", "adamw.py")(zeros(96))) == {
        Birth("optimizer state", ZEROS, "adamw._init_group", ""): 96
    }


def test_a_function_without_a_name_is_the_models_own() -> None:
    """An activation is under what no function of torch's took, with the function that did."""
    assert births(lambda: function("attention", "gpt.py")(zeros(8))) == {Birth(OTHERS, ZEROS, "gpt.attention", ""): 8}


def test_the_function_that_asked_may_lie_further_out() -> None:
    """The maker is the function that called the operator, the buffer that of the nearest one that has a name."""
    inner, outer = function("helper"), function("_cast_forward_inputs")
    assert births(lambda: function("_init_group")(lambda: outer(partial(inner, zeros(8))))) == {
        Birth("input cast", ZEROS, "torchs.helper", ""): 8
    }


@pytest.mark.parametrize(("file", "buffer"), [("distributed.py", "gradient buckets"), ("module.py", OTHERS)])
def test_a_common_name_is_told_by_its_file(file: str, buffer: str) -> None:
    """DDP's forward has a name that others have too: only in its own file is it the buckets' maker."""
    assert {birth.buffer for birth in births(lambda: function("_pre_forward", file)(zeros()))} == {buffer}


@pytest.mark.parametrize(
    ("local", "buffer"), [({}, "reduce-scatter inputs"), ({"reduce_scatter_input": None}, "gradient shards")]
)
def test_a_reduction_takes_its_input_first_and_then_its_output(local: dict[str, object], buffer: str) -> None:
    """One function of torch's takes both: what it takes while the input is there is the output."""
    taken = births(lambda: function("foreach_reduce", "fully_shard.py", **local)(zeros()))
    assert {birth.buffer for birth in taken} == {buffer}


def test_the_unit_is_the_parameter_groups() -> None:
    """Memory that a parameter group of fully_shard's takes names its unit."""
    group = type("FSDPParamGroup", (), {"_module_fqn": "blocks.1"})()
    (birth,) = births(lambda: function("unshard", self=group)(partial(function("foreach_all_gather"), zeros())))
    assert (birth.buffer, birth.unit) == ("all-gather outputs", "blocks.1")


def test_a_nodes_memory_is_under_the_nodes_name() -> None:
    """In backward, FSDP1's flat gradients are taken by a node of autograd's and by no function of Python's."""
    flat = torch.ones(4, requires_grad=True)
    loss = sum(piece.sum() for piece in torch.split(flat, [1, 3]))
    assert isinstance(loss, torch.Tensor)
    made = births(loss.backward, lambda: flat.grad)
    assert {(b.buffer, b.maker) for b in made if "cat" in b.operator} == {("flat gradients", "SplitWithSizesBackward0")}


def test_another_node_is_the_models_own() -> None:
    """A node without a name of the ledger's is named as the maker, whatever Python it runs."""
    assert gradient_through(function("helper")) == Birth(OTHERS, ZEROS, "DoubledBackward", "")


def test_a_function_that_a_node_runs_keeps_its_name() -> None:
    """fully_shard reduces inside of backward: the function's name says more than the node's."""
    assert gradient_through(function("_init_group")) == Birth("optimizer state", ZEROS, "torchs._init_group", "")


def test_a_unit_that_a_node_frees_keeps_its_place() -> None:
    """A parameter group at work inside of backward is the maker by its function, even where no buffer has its name."""
    group = type("FSDPParamGroup", (), {"_module_fqn": ""})()
    assert gradient_through(function("post_backward", self=group)) == Birth(
        OTHERS, ZEROS, "torchs.post_backward", "root"
    )


def test_two_tensors_of_one_maker_add_up() -> None:
    """What one function takes in two goes is one line with the sum."""
    take = function("_init_group")
    assert births(lambda: take(zeros(8)), lambda: take(zeros(16))) == {
        Birth("optimizer state", ZEROS, "torchs._init_group", ""): 24
    }


def test_memory_belongs_to_who_filled_it_last() -> None:
    """A storage that was freed and is filled again, as gathered parameters are, is then the second one's."""
    tensor = torch.zeros(0)
    storage = tensor.untyped_storage()

    def freed_and_filled() -> None:
        function("_init_group")(partial(storage.resize_, 8))
        storage.resize_(0)
        function("alloc_all_gather_outputs")(partial(storage.resize_, 16))

    assert births(freed_and_filled) == {Birth("gathered units", "resize_", "torchs.alloc_all_gather_outputs", ""): 16}


def test_who_only_uses_memory_does_not_own_it() -> None:
    """A view, a change in place and a storage that shrinks leave the memory with who took it."""
    kept: list[torch.Tensor] = []

    def taken_then_used() -> None:
        kept.append(function("_init_group")(zeros(8)))
        function("_cast_forward_inputs")(partial(kept[0].add_, 1))
        function("_cast_forward_inputs")(partial(kept[0].untyped_storage().resize_, 4))

    assert births(taken_then_used) == {Birth("optimizer state", ZEROS, "torchs._init_group", ""): 4}


def test_an_empty_storage_has_a_maker_too() -> None:
    """A storage that is made without memory, as an empty shard is, is entered with no bytes."""
    assert births(lambda: function("_init_sharded_param")(zeros(0))) == {
        Birth("parameters", ZEROS, "torchs._init_sharded_param", ""): 0
    }


def test_a_dispatch_that_names_no_operator_is_a_resize() -> None:
    """A tensor subclass's dispatch that resizes a storage by itself lends no operator."""
    storage = torch.zeros(0).untyped_storage()
    taken = births(lambda: function("__torch_dispatch__")(partial(storage.resize_, 8)))
    assert {birth.operator for birth in taken} == {"resize_"}


def test_a_stretch_without_a_birth_has_what_was_alive() -> None:
    """Before anything is made a stretch is empty; one that makes nothing has what the one before it left."""
    meter = CpuMemoryMeter(census := Census())
    with meter.watch():
        meter.start()
        kept = torch.zeros(8, dtype=torch.uint8)
        meter.mark("made")
        meter.mark("idle")
        meter.stop()
    del kept
    empty, made, idle = census.fullest
    assert (empty, sum(made.values()), idle) == (Counter(), 8, made)


def test_a_birth_outside_of_any_unit_names_none() -> None:
    """A line of a census has no place for a unit where there is none."""
    assert str(Birth("mesh", ZEROS, "device_mesh.init_device_mesh", "")) == (
        f"mesh ({ZEROS} in device_mesh.init_device_mesh)"
    )
