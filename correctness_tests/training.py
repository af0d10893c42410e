"""A small model of whole numbers for the tests of what happens around a step: a sharded run and its plain twin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


class Half(nn.Module):
    """Two matrices in one unit, x W_0^T W_1^T, with uneven rows: (B, 3) -> (B, 5) -> (B, 3)."""

    def __init__(self, start: int) -> None:
        super().__init__()
        values = (torch.arange(start, start + 30) * 7 % 5 - 2).float()
        self.up = nn.Parameter(values[:15].view(5, 3).clone())
        self.down = nn.Parameter(values[15:].view(3, 5).clone())
        self.bias = nn.Parameter(torch.tensor([1.0, -1.0, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        """Apply both; no activation, so that whole numbers stay whole."""
        return x @ self.up.t() @ self.down.t() + self.bias


class Pair(nn.Module):
    """Two halves, each a unit, (B, 3) -> (B, 3).

    Weights start within -2..2 and data within -1..1; with learning rates that are powers of two, down to 2**-6 a step,
    every number of the first step is a whole multiple of 2**-8 below 2**12: 20 bits, exact in float32 in any order of
    addition. Later steps are exact for a twin that does the same operations in the same order on whole tensors, up to
    the order of the sum over ranks; comparisons of several steps are made on two ranks, where a + b = b + a.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = Half(0)
        self.second = Half(11)

    def forward(self, x: Tensor) -> Tensor:
        """Apply both halves."""
        y: Tensor = self.second(self.first(x))
        return y


def shard_pair(model: Pair, mesh: DeviceMesh, reshard_after_forward: bool = True) -> Pair:
    """Shard each half, then the root, in place; returns the model."""
    for module in (model.first, model.second, model):
        fully_shard(module, mesh=mesh, reshard_after_forward=reshard_after_forward)
    return model


def batch_of(step: int, rank: int) -> Tensor:
    """One rank's own batch of one step, (2, 3), of -1, 0 and 1."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randint(-1, 2, (2, 3), generator=generator).float()


def backward(model: nn.Module, step: int, rank: int) -> None:
    """One rank's backward pass of one step; the loss is linear in the output."""
    (model(batch_of(step, rank)) * torch.tensor([1.0, -2.0, 1.0])).sum().backward()


def train_plain(model: Pair, optimizer: torch.optim.Optimizer, steps: int, world_size: int, first: int = 0) -> Pair:
    """The plain twin: each step averages the gradients of all ranks' batches, each taken on its own, in rank order."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    for step in range(first, first + steps):
        total = [torch.zeros_like(p) for p in parameters]
        for rank in range(world_size):
            backward(model, step, rank)
            for into, p in zip(total, parameters, strict=True):
                assert p.grad is not None
                into += p.grad
            optimizer.zero_grad(set_to_none=True)
        for into, p in zip(total, parameters, strict=True):
            p.grad = into / world_size
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return model


def train_sharded(model: Pair, optimizer: torch.optim.Optimizer, steps: int, rank: int, first: int = 0) -> Pair:
    """On a rank: the same steps on this rank's batches."""
    for step in range(first, first + steps):
        backward(model, step, rank)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return model


def whole(tensor: Tensor) -> Tensor:
    """The tensor, gathered if it is sharded, without its graph. A collective: every rank calls it."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def whole_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter by name, whole. A collective."""
    return {name: whole(parameter) for name, parameter in model.named_parameters()}


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def check_same(found: dict[str, Tensor], expected: dict[str, Tensor], where: str, meaning: str) -> None:
    """Fail unless two sets of named tensors are alike, names in order and every bit."""
    assert list(found) == list(expected), f"{where}: has {list(found)}, expected {list(expected)}. {meaning}"
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, f"{where}, {name}: {found[name].dtype}, expected {tensor.dtype}"
        assert torch.equal(found[name], tensor), (
            f"{where}, {name}: {found[name].tolist()}, expected {tensor.tolist()}. {meaning}"
        )


@contextmanager
def padding_poisoned(model: nn.Module) -> Iterator[int]:
    """Fill with NaN what each shard's storage holds beyond its rows; yields how many elements that are."""
    count = 0
    for parameter in model.parameters():
        shard = local(parameter).detach()
        buffer = torch.empty(0, dtype=shard.dtype).set_(shard.untyped_storage())
        buffer[shard.storage_offset() + shard.numel() :] = torch.nan
        count += buffer.numel() - shard.numel()
    yield count
