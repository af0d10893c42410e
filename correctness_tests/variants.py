"""Ways of training one small model of whole numbers: sharded, replicated, and on one process in float64.

Weights are wrapped around to -2..2 after every step, data are whole numbers up to 3, the loss is linear in the output
and the world a power of two, so that a mean over the ranks rounds nothing. ``majorant`` proves it for each case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from correctness_tests.gradients import SEED, Gradients
from correctness_tests.meshes import mesh_of_two
from fixtures.models import MLPBlock
from fixtures.ranks.worker import current
from fixtures.strategies import rank_generator

WIDTH, HIDDEN, ROWS, BLOCKS = 3, 7, 4, 2
"""No world above 1 divides the rows of a parameter; of four ranks the last holds none of some."""

Sync = Literal["every", "last", "all-reduce last"]
Kind = Literal["plain", "checkpoint in unit", "checkpoint around unit", "frozen", "unused", "tied", "twice", "mixed"]


class Block(MLPBlock):
    """A residual MLP that may hold a parameter it never uses, may recompute itself, and has a dtype of its own."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(WIDTH, HIDDEN)
        self.kind = kind
        if kind == "unused":
            self.spare = nn.Linear(WIDTH, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C) -> (B, C), in the dtype of the input."""
        y = x.to(self.up.weight.dtype)
        if self.kind == "checkpoint in unit":
            y = checkpoint(super().forward, y, use_reentrant=False)
        else:
            y = super().forward(y)
        return y.to(x.dtype)


class Net(nn.Module):
    """A linear map, two blocks and a second linear map, which may be the first one's weight again; (B, C) -> (B, C)."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.first = nn.Linear(WIDTH, WIDTH, bias=False)
        self.blocks = nn.ModuleList(Block(kind) for _ in range(BLOCKS))
        self.last = nn.Linear(WIDTH, WIDTH, bias=False)
        if kind == "tied":
            self.last.weight = self.first.weight
        if kind == "frozen":
            for parameter in (*self.blocks[0].parameters(), self.blocks[1].get_parameter("up.weight")):
                parameter.requires_grad_(False)
        if kind == "mixed":
            self.blocks[1].double()
        generator = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C) -> (B, C)."""
        x = self.first(x)
        for block in (*self.blocks, *(self.blocks[:1] if self.kind == "twice" else ())):
            around = self.kind == "checkpoint around unit"
            x = checkpoint(block, x, use_reentrant=False) if around else block(x)
        y: Tensor = self.last(x)
        return y


@dataclass(frozen=True)
class Variant:
    """How one case trains: its model, how it is sharded, how many micro-batches a step has and which of them sync.

    ``divide_by``: a gradient divide factor in place of the world size. ``replicas``: 0 for a 1-D mesh, else the first
    size of an HSDP mesh.
    """

    kind: Kind = "plain"
    reshard: bool | int = True
    micro_batches: int = 1
    sync: Sync = "every"
    divide_by: float | None = None
    replicas: int = 0


VARIANTS: dict[str, Variant] = {
    "plain": Variant(),
    "no reshard": Variant(reshard=False),
    "reshard to 2": Variant(reshard=2),
    "checkpoint in unit": Variant("checkpoint in unit"),
    "checkpoint around unit": Variant("checkpoint around unit"),
    "frozen": Variant("frozen"),
    "unused": Variant("unused"),
    "tied": Variant("tied"),
    "block used twice": Variant("twice"),
    "mixed dtypes": Variant("mixed"),
    "accumulation, every micro-batch synced": Variant(micro_batches=3),
    "accumulation, last micro-batch synced": Variant(micro_batches=3, sync="last"),
    "divide factor": Variant(divide_by=2.0),
    "hsdp": Variant(replicas=2),
    "hsdp, divide factor": Variant(replicas=2, divide_by=2.0),
    "hsdp, no reshard": Variant(replicas=2, reshard=False),
    "hsdp, last micro-batch synced": Variant(replicas=2, micro_batches=3, sync="last"),
    "hsdp, last micro-batch all-reduced": Variant(replicas=2, micro_batches=3, sync="all-reduce last"),
}


def shard(net: Net, variant: Variant, world_size: int) -> Net:
    """Shard each block and the root; the divide factor goes through sums, since gloo has no pre-multiplied one."""
    for unit in (*net.blocks, net):
        reshard = variant.reshard if unit is not net or variant.reshard in (True, False) else True
        fully_shard(unit, mesh=mesh_of(variant, world_size), reshard_after_forward=reshard)
        if variant.divide_by is not None:
            assert isinstance(unit, FSDPModule)
            unit.set_force_sum_reduction_for_comms(True)
            unit.set_gradient_divide_factor(variant.divide_by)
    return net


def mesh_of(variant: Variant, world_size: int) -> DeviceMesh:
    """The 1-D mesh, or the 2-D mesh of HSDP."""
    if not variant.replicas:
        return init_device_mesh("cpu", (world_size,), mesh_dim_names=("shard",))
    return mesh_of_two(variant.replicas, world_size // variant.replicas, ("replicate", "shard"))


def batches(rank: int, variant: Variant, steps: int) -> Iterator[list[Tensor]]:
    """For each step its micro-batches, (2, B, C) each: inputs and targets of this rank alone."""
    generator = rank_generator(SEED, rank)
    for _ in range(steps):
        yield [
            torch.randint(-3, 4, (2, ROWS, WIDTH), generator=generator).float() for _ in range(variant.micro_batches)
        ]


def backward(module: nn.Module, batch: Tensor) -> None:
    """Forward and backward of one micro-batch; the loss is linear in the output."""
    (module(batch[0]) * batch[1]).sum().backward()


def gradients_of(module: nn.Module) -> Gradients:
    """Each parameter's whole gradient in float64, by its name in the unwrapped model; none where there is none."""
    found = {}
    for name, parameter in module.named_parameters():
        grad = parameter.grad
        if grad is not None:
            whole = grad.full_tensor() if isinstance(grad, DTensor) else grad
            found[name.removeprefix("module.")] = whole.detach().double().clone()
    return found


def sgd_step(module: nn.Module, lr: float) -> None:
    """One step of SGD; then wrap the weights around to -2..2, an operation on single elements, and drop gradients."""
    torch.optim.SGD(module.parameters(), lr=lr).step()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(2).remainder_(5).sub_(2)
    module.zero_grad(set_to_none=True)


def train_sharded(name: str, steps: int) -> list[Gradients]:
    """On a rank: the gradients of each step under FSDP2."""
    variant, world_size = VARIANTS[name], current().world_size
    net = shard(Net(variant.kind), variant, world_size)
    assert isinstance(net, FSDPModule)
    found = []
    for micro_batches in batches(current().rank, variant, steps):
        for i, batch in enumerate(micro_batches):
            last = i == len(micro_batches) - 1
            if variant.sync == "last":
                net.set_requires_gradient_sync(last)
            elif variant.sync == "all-reduce last":
                net.set_requires_all_reduce(last)
            backward(net, batch)
        found.append(gradients_of(net))
        sgd_step(net, lr=variant.divide_by or world_size)
    return found


def train_replicated(name: str, steps: int) -> list[Gradients]:
    """On a rank: the gradients of each step under DDP."""
    variant = VARIANTS[name]
    ddp = DistributedDataParallel(Net(variant.kind), find_unused_parameters=variant.kind == "unused")
    found = []
    for micro_batches in batches(current().rank, variant, steps):
        for i, batch in enumerate(micro_batches):
            quiet = variant.sync != "every" and i < len(micro_batches) - 1
            context: AbstractContextManager[None] = ddp.no_sync() if quiet else nullcontext()
            with context:
                backward(ddp, batch)
        found.append(gradients_of(ddp))
        sgd_step(ddp, lr=current().world_size)
    return found


@dataclass
class Truth:
    """What one process finds on all ranks' data: the gradients of each step, and a bound on any partial sum of them."""

    gradients: list[Gradients] = field(default_factory=list)
    largest_partial_sum: float = 0.0


def train_alone(name: str, world_size: int, steps: int) -> Truth:
    """In one process, in float64: the gradients of each step on the concatenated batch of all ranks."""
    variant, truth = VARIANTS[name], Truth()
    net, divisor = Net(variant.kind).double(), variant.divide_by or world_size
    for ranks in zip(*(batches(rank, variant, steps) for rank in range(world_size)), strict=True):
        together = [torch.cat(parts, dim=1).double() for parts in zip(*ranks, strict=True)]
        truth.largest_partial_sum = max(truth.largest_partial_sum, majorant(net, together))
        for batch in together:
            backward(net, batch)
        truth.gradients.append({key: grad / divisor for key, grad in gradients_of(net).items()})
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.grad /= divisor
        sgd_step(net, lr=divisor)
    return truth


def majorant(net: Net, together: Sequence[Tensor]) -> float:
    """The largest gradient of the same net with all weights and data positive: no partial sum can be larger.

    Every term of every sum in forward and backward is a product of weights and data, and ReLU passes at most what it
    gets, so dropping the signs bounds the terms and each sum of some of them.
    """
    positive = Net(net.kind).double()
    positive.load_state_dict({key: value.abs() for key, value in net.state_dict().items()})
    for batch in together:
        backward(positive, batch.abs())
    return max(float(grad.max()) for grad in gradients_of(positive).values())
