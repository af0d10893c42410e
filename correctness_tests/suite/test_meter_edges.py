"""Property: a unit's marks lie around its strategy's hooks, in forward and in backward, and change no value."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fixtures.meters.edges import Unit

pytestmark = pytest.mark.cpu


class Scaled(nn.Module):
    """``weight * x + shift``; ``seen`` has the last call's arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.seen: list[Any] = []

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        """Of float32 and any shape that ends in 2."""
        self.seen = [x, shift]
        return self.weight * x + (0 if shift is None else shift)


class Wrapper(nn.Module):
    """A strategy that puts a module of its own around the block, as FSDP1 does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The block's."""
        return self.module(*args, **kwargs)


class Diary:
    """What was passed and which of a strategy's hooks ran, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def passed(self, unit: Unit, edge: str, direction: str) -> None:
        """A mark."""
        self.lines.append(f"{direction} {edge} of {unit.name}")

    def shard(self, module: nn.Module) -> nn.Module:
        """Hooks before and after the module, and through what they see of it also before and after its backward."""

        def before(module: nn.Module, args: Any) -> None:
            self.lines.append("gather for forward")
            if args[0].requires_grad:
                args[0].register_hook(lambda grad: self.lines.append("reduce"))

        def after(module: nn.Module, args: Any, output: Any) -> None:
            self.lines.append("reshard after forward")
            output.register_hook(lambda grad: self.lines.append("gather for backward"))

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


def unit(outer: nn.Module, inner: nn.Module | None = None) -> Unit:
    """The one block of a test."""
    return Unit("block 0", outer, inner or outer, tuple(outer.modules()))


FORWARD = [
    "forward enter of block 0",
    "gather for forward",
    "forward begin of block 0",
    "forward end of block 0",
    "reshard after forward",
    "forward leave of block 0",
]
BACKWARD = [
    "backward enter of block 0",
    "gather for backward",
    "backward begin of block 0",
    "backward end of block 0",
    "reduce",
    "backward leave of block 0",
]


@pytest.mark.parametrize("wraps", [False, True])
def test_marks_lie_around_the_strategys_hooks(wraps: bool) -> None:
    """Its hooks run between enter and begin and between end and leave, though they were there first."""
    diary, inner = Diary(), Scaled()
    outer = diary.shard(Wrapper(inner) if wraps else inner)
    with unit(outer, inner).marked(diary.passed):
        loss = outer(torch.ones(2, requires_grad=True)).sum()
        assert diary.lines == FORWARD
        loss.backward()
    assert diary.lines == [*FORWARD, *BACKWARD]


def test_tensors_that_are_named_are_marked_too() -> None:
    """A block that is given its input by name has the same marks in backward."""
    diary, block = Diary(), Scaled()
    with unit(block).marked(diary.passed):
        block(torch.ones(2), shift=torch.ones(2, requires_grad=True)).sum().backward()
    assert diary.lines[4:] == [line for line in BACKWARD if "block 0" in line]


def test_nothing_is_passed_once_it_is_over() -> None:
    """The hooks go with the recording, and with them the marks."""
    diary, block = Diary(), Scaled()
    with unit(block).marked(diary.passed):
        pass
    block(torch.ones(2, requires_grad=True)).sum().backward()
    assert diary.lines == []


def test_the_block_computes_what_it_would_without_marks() -> None:
    """Output and gradients are those of the bare block; an input without a gradient arrives as it is."""
    x, shift = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([1.0, 5.0])
    block = Scaled()
    with unit(block).marked(Diary().passed):
        output = block(x, shift=shift)
    output.sum().backward()
    assert output.tolist() == [3.0, 8.0]
    assert x.grad is not None
    assert (x.grad.tolist(), getattr(block.weight.grad, "tolist", list)()) == ([1.0, 1.0], [2.0, 3.0])
    assert block.seen[1] is shift


def test_without_gradients_nothing_is_cloned() -> None:
    """Under no_grad, as in evaluation, backward has no edges: the block is given its input itself."""
    x, block = torch.ones(2, requires_grad=True), Scaled()
    with unit(block).marked(Diary().passed), torch.no_grad():
        block(x)
    assert block.seen[0] is x
