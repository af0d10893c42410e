"""The order of events in FSDP2's steps: what is gathered, allocated, used, freed and reduced, by unit.

One process plays rank 0 of N. Events come from where the work is done: the collective as it is issued, a gathered
parameter's storage as it is resized, and the model's own forward and backward computation (an autograd function around
it); no profiler label and no hook of a module is believed. They read

    gather 1    the all-gather of unit 1 is issued          grad 1      its backward computation begins
    fill 1      its gathered parameters are allocated       reduce 1    its reduce-scatter is issued
    use 1       its forward computation begins              replicate 1 HSDP's all-reduce of its gradients
    free 1      its gathered parameters are freed

A collective is told by its size: no two units have the same number of elements. Each ``use`` and ``grad`` checks that
the unit's parameters are there; where they are not, the event reads ``use 1 WITHOUT``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from fixtures.meters.collectives import CollectivesMeter
from fixtures.platforms import playing_rank

WIDTH = 8
KINDS = {"all-gather": "gather", "reduce-scatter": "reduce", "all-reduce": "replicate"}

Shard = Callable[["Stage"], None]


class Stage(nn.Module):
    """A weight of ``rows`` rows applied there and back, then the stages inside, in order; (B, C) -> (B, C)."""

    def __init__(self, name: str, rows: int, inside: Sequence[Stage] = (), order: Sequence[int] | None = None) -> None:
        super().__init__()
        self.name = name
        self.weight = nn.Parameter(torch.ones(rows, WIDTH))
        self.inside = nn.ModuleList(inside)
        self.order = range(len(inside)) if order is None else order
        self.recompute = False
        self.log: list[str] = []

    def forward(self, x: Tensor) -> Tensor:
        """(B, C) -> (B, C)."""
        for i in self.order:
            stage = self.inside[i]
            x = checkpoint(stage, x, use_reentrant=False) if self.recompute else stage(x)
        return _Mark.apply(x @ self.weight.T @ self.weight, self)  # type: ignore[no-any-return, no-untyped-call]

    def note(self, what: str) -> None:
        """Log an event of this stage, and whether its parameters are there."""
        there = self.weight.untyped_storage().size() > 0
        self.log.append(f"{what} {self.name}" + ("" if there else " WITHOUT"))


class _Mark(torch.autograd.Function):
    """Notes the computation before it in forward, and in backward the moment before its gradients are computed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stage: Stage) -> Tensor:
        ctx.stage = stage
        stage.note("use")
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        ctx.stage.note("grad")
        return grads[0], None


class Recorder(CollectivesMeter):
    """Logs collectives and resized storages by unit; ``sizes`` maps a unit's padded elements to its name."""

    def __init__(self, log: list[str], sizes: dict[int, str], world_size: int) -> None:
        super().__init__()
        self._log, self._sizes, self._world_size = log, sizes, world_size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen = len(self.events)
        out = super().__torch_dispatch__(func, types, args, kwargs)
        for event in self.events[seen:]:
            elements = event.bytes // torch.empty((), dtype=getattr(torch, event.dtype)).element_size()
            if event.kind == "all-reduce":  # of a shard
                elements *= self._world_size
            self._log.append(f"{KINDS.get(event.kind, event.kind)} {self._sizes.get(elements, elements)}")
        return out

    @contextmanager
    def watching_storages(self) -> Iterator[None]:
        """Log every ``UntypedStorage.resize_``, which is how FSDP2 frees and allocates what it gathers."""
        original = torch.UntypedStorage.resize_

        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            elements = (size or storage.size()) // torch.float32.itemsize
            self._log.append(f"{'fill' if size else 'free'} {self._sizes.get(elements, elements)}")
            return original(storage, size)

        torch.UntypedStorage.resize_ = resize_  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            torch.UntypedStorage.resize_ = original  # type: ignore[method-assign]


def three_blocks(order: Sequence[int] | None = None) -> Stage:
    """A root around blocks 0, 1 and 2."""
    return Stage("root", 64, [Stage("0", 8), Stage("1", 16), Stage("2", 24)], order)


def nested() -> Stage:
    """A root around blocks 0 and 1, each of which has a unit of its own inside."""
    return Stage("root", 64, [Stage("0", 8, [Stage("0.inner", 16)]), Stage("1", 24, [Stage("1.inner", 32)])])


def stages(root: Stage) -> list[Stage]:
    """All stages, those inside first."""
    found = [module for module in root.modules() if isinstance(module, Stage)]
    return found[::-1]


def flat_mesh(world_size: int) -> DeviceMesh:
    """The 1-D mesh."""
    return init_device_mesh("cpu", (world_size,))


def shard_all(root: Stage, mesh: DeviceMesh, reshard: bool | int | None = None) -> Stage:
    """Shard every stage, those inside first; ``reshard`` None leaves each its default."""
    for stage in stages(root):
        fully_shard(stage, mesh=mesh, mp_policy=MixedPrecisionPolicy(), reshard_after_forward=reshard)
    return root


def step(root: Stage) -> None:
    """Forward and backward of an input that requires a gradient, as the activations of a whole model do."""
    root(torch.ones(2, WIDTH, requires_grad=True)).sum().backward()


def record(
    root: Stage,
    prepare: Callable[[Stage, DeviceMesh], object] = shard_all,
    run: Callable[[Stage], object] = step,
    mesh: Callable[[int], DeviceMesh] = flat_mesh,
    world_size: int = 4,
) -> list[str]:
    """The events of the second of two runs, when nothing is set up any more; rows divide by the world size."""
    log: list[str] = []
    for stage in stages(root):
        stage.log = log
    sizes = {stage.weight.numel(): stage.name for stage in stages(root)}
    with playing_rank(0, world_size):
        prepare(root, grid := mesh(world_size))
        run(root)
        log.clear()
        recorder = Recorder(log, sizes, grid.size(grid.ndim - 1))
        with recorder, recorder.watching_storages():
            run(root)
    return log


def as_fsdp(stage: Stage) -> FSDPModule:
    """A sharded stage as what it has become."""
    assert isinstance(stage, FSDPModule)
    return stage
