"""What may happen to an FSDP2 module in its life: done to it on real ranks, and to its twin in one process."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from correctness_tests.gradients import Gradients
from correctness_tests.variants import ROWS, WIDTH, Net, backward
from fixtures.ranks.worker import current
from fixtures.strategies import rank_generator

FREEZABLE = ("first.weight", "blocks.0.up.bias", "blocks.1.down.weight")


class InterruptedForwardError(Exception):
    """Raised in the middle of a forward, on purpose."""


@dataclass(frozen=True)
class Snapshot:
    """Whole weights and gradients in float64, by name, and what the operation returned: one output for each rank."""

    weights: dict[str, Tensor]
    gradients: Gradients
    output: Tensor | None = None


def batch_of(seed: int, rank: int) -> Tensor:
    """Inputs and targets, (2, B, C), of one rank: whole numbers."""
    return torch.randint(-3, 4, (2, ROWS, WIDTH), generator=rank_generator(1000 * seed, rank)).float()


def step(optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter]) -> None:
    """A step of SGD; the weights wrap around to -2..2, so that they stay small whole numbers; gradients to None."""
    optimizer.step()
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.add_(2).remainder_(5).sub_(2)
    optimizer.zero_grad(set_to_none=True)


def interrupted_forward(net: Net, batch: Tensor) -> None:
    """A forward that raises in its second block."""

    def interrupt(*_: object) -> None:
        raise InterruptedForwardError

    hook = net.get_submodule("blocks.1.up").register_forward_hook(interrupt)
    try:
        net(batch[0])
    except InterruptedForwardError:
        pass
    finally:
        hook.remove()


class _Life:
    """What both lives have in common."""

    net: Net
    parameters: dict[str, nn.Parameter]

    def save(self) -> None:
        """Keep a state dict."""
        self.saved = {key: value.clone() for key, value in self.net.state_dict().items()}

    def load(self) -> None:
        """Go back to the state dict that was kept."""
        self.net.load_state_dict(self.saved)


class ShardedLife(_Life):
    """On a rank: the module under FSDP2, with this rank's data."""

    def __init__(self) -> None:
        self.rank, world_size = current().rank, current().world_size
        self.net = Net("plain")
        for unit in (*self.net.blocks, self.net):
            fully_shard(unit)  # all left at its default: the root stays gathered after forward
        assert isinstance(self.net, FSDPModule)
        self.fsdp: FSDPModule = self.net
        self.parameters = dict(self.net.named_parameters())
        self.optimizer = torch.optim.SGD(self.parameters.values(), lr=float(world_size))
        self.save()

    def backward(self, seed: int) -> None:
        """Forward and backward."""
        backward(self.net, batch_of(seed, self.rank))

    def evaluate(self, seed: int) -> Tensor:
        """A forward without gradients."""
        with torch.no_grad():
            output: Tensor = self.net(batch_of(seed, self.rank)[0])
            return output

    def interrupt(self, seed: int) -> None:
        """A forward that raises, and the recovery that FSDP2 documents."""
        interrupted_forward(self.net, batch_of(seed, self.rank))
        self.fsdp.reset_iter_state()

    def step(self) -> None:
        """An optimizer's step; parameters that are still gathered are resharded before it."""
        self.reshard()
        self.step_without_reshard()

    def step_without_reshard(self) -> None:
        """An optimizer's step."""
        step(self.optimizer, self.parameters)

    def sync(self, on: bool) -> None:
        """Reduce gradients from now on, or keep them."""
        self.fsdp.set_requires_gradient_sync(on)

    def freeze(self, name: str, frozen: bool) -> None:
        """Freeze a parameter or thaw it; parameters that are still gathered are resharded before it."""
        self.reshard()
        self.freeze_without_reshard(name, frozen)

    def freeze_without_reshard(self, name: str, frozen: bool) -> None:
        """Freeze a parameter or thaw it."""
        self.parameters[name].requires_grad_(not frozen)

    def unshard(self) -> None:
        """Gather every unit by hand."""
        for unit in (*self.net.blocks, self.net):
            assert isinstance(unit, FSDPModule)
            unit.unshard()

    def reshard(self) -> None:
        """Free every unit by hand."""
        for unit in (*self.net.blocks, self.net):
            assert isinstance(unit, FSDPModule)
            unit.reshard()

    def snapshot(self, output: Tensor | None) -> Snapshot:
        """Whole weights and gradients."""
        weights = {name: _whole(p) for name, p in self.parameters.items()}
        gradients = {name: _whole(p.grad) for name, p in self.parameters.items() if p.grad is not None}
        return Snapshot(weights, gradients, None if output is None else output.double())


class TwinLife(_Life):
    """In one process, in float64, with all ranks' data; gradients of backwards without sync wait in ``pending``."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.net = Net("plain").double()
        self.parameters = dict(self.net.named_parameters())
        self.optimizer = torch.optim.SGD(self.parameters.values(), lr=float(world_size))
        self.synced = True
        self.pending: dict[str, Tensor] = {}
        self.save()

    def backward(self, seed: int) -> None:
        """Add the mean over the ranks to the gradients, or to what is pending."""
        before = {name: p.grad for name, p in self.parameters.items()}
        for parameter in self.parameters.values():
            parameter.grad = None
        for rank in range(self.world_size):
            backward(self.net, batch_of(seed, rank).double())
        for name, parameter in self.parameters.items():
            parts = [self.pending.pop(name, None), parameter.grad]
            added = [part for part in parts if part is not None]
            parameter.grad = before[name]
            if not added:
                continue
            total = torch.stack(added).sum(0)
            if self.synced:
                mean, old = total / self.world_size, before[name]
                parameter.grad = mean if old is None else old + mean
            else:
                self.pending[name] = total

    def evaluate(self, seed: int) -> list[Tensor]:
        """The output of each rank."""
        with torch.no_grad():
            return [self.net(batch_of(seed, rank)[0].double()) for rank in range(self.world_size)]

    def interrupt(self, seed: int) -> None:
        """Nothing comes of it."""

    def step(self) -> None:
        """An optimizer's step."""
        step(self.optimizer, self.parameters)

    def sync(self, on: bool) -> None:
        """Reduce gradients from now on, or keep them."""
        self.synced = on

    def freeze(self, name: str, frozen: bool) -> None:
        """Freeze a parameter or thaw it."""
        self.parameters[name].requires_grad_(not frozen)

    def unshard(self) -> None:
        """Nothing changes."""

    reshard = unshard

    def snapshot(self) -> Snapshot:
        """Weights and gradients."""
        gradients = {name: p.grad.clone() for name, p in self.parameters.items() if p.grad is not None}
        return Snapshot({name: p.detach().clone() for name, p in self.parameters.items()}, gradients)


_lives: list[ShardedLife] = []


def begin() -> None:
    """On a rank: a new life; the one before is forgotten."""
    _lives[:] = [ShardedLife()]


def perform(operation: str, *arguments: object) -> Snapshot:
    """On a rank: do something to the module of this life, and look at it."""
    (life,) = _lives
    return life.snapshot(getattr(life, operation)(*arguments))


def _whole(tensor: Tensor) -> Tensor:
    assert isinstance(tensor, DTensor)
    return tensor.full_tensor().detach().double()
