"""Property: under the memory meter a collective's buffers live exactly as long as the program's own references."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fixtures.measurements import Settings
from fixtures.meters.memory import CpuMemoryMeter, MemorySamples
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.torch_internals import functional
from fixtures.training import Arm, Trainer

pytestmark = pytest.mark.cpu

SIZE = 96


def collective_results(watched: bool) -> dict[str, list[float]]:
    """Run each kind of collective on tensors that differ by rank; return what each left on this rank."""
    world, rank = dist.get_world_size(), dist.get_rank()
    group = current().platform.mesh().get_group()
    with CpuMemoryMeter().watch() if watched else nullcontext():
        mine, all_mine = torch.arange(SIZE) + 1000.0 * rank, torch.empty(world * SIZE)
        wide = torch.arange(world * SIZE) * (rank + 1.0)
        pieces = [torch.empty(SIZE) for _ in range(world)]
        found = {name: mine.clone() for name in ("sum", "average", "first", "reduced", "scattered", "mean")}
        dist.all_reduce(found["sum"])
        dist.all_reduce(found["average"], op=dist.ReduceOp.AVG)
        dist.broadcast(found["first"], src=0)
        dist.reduce(found["reduced"], dst=0)
        work = dist.all_gather_into_tensor(all_mine, mine, async_op=True)
        work.wait()
        assert work.is_completed()
        dist.all_gather(pieces, mine)
        dist.reduce_scatter_tensor(found["scattered"], wide)
        dist.reduce_scatter_tensor(found["mean"], wide, op=dist.ReduceOp.AVG)
        dist.barrier()
        found |= {"gathered": all_mine, "pieces": torch.cat(pieces)}
        found["strided"] = torch.zeros(SIZE, 2)
        found["strided"][:, 1] = mine
        column = found["strided"][:, 1].contiguous()
        dist.all_reduce(column)
        found["strided"][:, 0] = column
        found["empty"] = torch.empty(0)
        dist.all_reduce(found["empty"])
        found["functional sum"] = functional.all_reduce(mine, "sum", group) + 0
        found["functional gather"] = functional.all_gather_tensor(mine, 0, group) + 0
        found["functional scatter"] = functional.reduce_scatter_tensor(wide, "sum", 0, group) + 0
        found["exchanged"] = _exchange(mine)
    return {name: tensor.flatten().tolist() for name, tensor in found.items()}


def _exchange(mine: torch.Tensor) -> torch.Tensor:
    """Send to the next rank and receive from the one before, both at once: waiting for either first never ends."""
    world, rank = dist.get_world_size(), dist.get_rank()
    theirs = torch.empty_like(mine)
    operations = [
        dist.P2POp(dist.isend, mine, (rank + 1) % world),
        dist.P2POp(dist.irecv, theirs, (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return theirs


def test_results_are_the_same_under_the_meter(ranks: Callable[[int], RankPool]) -> None:
    """Every kind of collective, in place, asynchronous and functional, leaves on each rank what it leaves unwatched."""
    pool = ranks(2)
    assert pool.run(collective_results, watched=True) == pool.run(collective_results, watched=False)


def buffers_left_after_dropping(repeats: int) -> int:
    """Gather into a buffer, wait, drop the buffer; count the storages that are not dead at once."""
    left = 0
    with CpuMemoryMeter().watch():
        mine = torch.ones(SIZE)
        for _ in range(repeats):
            buffer = torch.empty(SIZE * dist.get_world_size())
            dist.all_gather_into_tensor(buffer, mine)
            alive = weakref.ref(buffer.untyped_storage())
            del buffer
            left += alive() is not None
    return left


def test_a_dropped_buffer_is_dead_at_once(ranks: Callable[[int], RankPool]) -> None:
    """No reference of gloo's worker outlasts the program's own."""
    assert ranks(2).run(buffers_left_after_dropping, 100) == [0, 0]


def ddp_gradients(watched: bool) -> list[float]:
    """Two steps of DDP, whose reducer reads the result of its all-reduce from a future in C++."""
    torch.manual_seed(0)
    with CpuMemoryMeter().watch() if watched else nullcontext():
        model = DistributedDataParallel(torch.nn.Linear(3, 5), gradient_as_bucket_view=True)
        for _ in range(2):
            model.zero_grad()
            model(torch.full((2, 3), dist.get_rank() + 1.0)).sum().backward()
        gradients = [parameter.grad for parameter in model.parameters()]
    return [value for gradient in gradients if gradient is not None for value in gradient.flatten().tolist()]


def test_ddp_reduces_the_same_gradients_under_the_meter(ranks: Callable[[int], RankPool]) -> None:
    """Finished work hands DDP's reducer its own bucket: averaged gradients, the same on both ranks."""
    watched = ranks(2).run(ddp_gradients, watched=True)
    assert watched == ranks(2).run(ddp_gradients, watched=False)
    assert watched[0] == [3.0] * 15 + [2.0] * 5


def samples_of_steps(strategy: str, steps: int) -> list[MemorySamples]:
    """One start and stop for each of some steady steps."""
    meter = CpuMemoryMeter()
    samples = []
    with meter.watch():
        trainer = Trainer(Arm("mlp", strategy, Settings()), current().platform)
        for _ in range(2):
            trainer.step()
        for _ in range(steps):
            meter.start()
            trainer.step(meter.mark)
            samples.append(meter.stop())
    return samples


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "fsdp2-noreshard"])
def test_every_step_and_every_rank_reads_the_same_bytes(ranks: Callable[[int], RankPool], strategy: str) -> None:
    """Resident, peak and every phase of 10 steps of 4 ranks: one figure each, to the byte."""
    readings = [samples for rank in ranks(4).run(samples_of_steps, strategy, 10) for samples in rank]
    different = [samples for samples in readings if samples != readings[0]]
    assert not different, (
        f"{strategy} of mlp on cpu-gloo-4: {readings[0]}, and {len(different)} of {len(readings)} not: "
        + str(different[:3])
    )
