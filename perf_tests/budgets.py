"""What the budget tests run on each rank: a few steps of one arm, with what they hold and what they send."""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from fixtures import ledger
from fixtures.ledger import Precision, Shape
from fixtures.measurements import CollectiveTally, Settings
from fixtures.meters.collectives import CollectivesMeter
from fixtures.meters.memory import CpuMemoryMeter
from fixtures.platforms import Platform, playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.strategies import build_model
from fixtures.training import SEED, Arm, Trainer
from fixtures.workloads import Workload, adamw, resolve_workload, unit_shapes

UNEVEN = f"{__name__}:uneven"
"""A workload no dimension of which N = 2 or 4 divides."""

HALVED = f"{__name__}:halved"
"""The same with bfloat16 parameters."""

ARMS = ("ddp", "fsdp1", "fsdp2", "fsdp2-noreshard")

STEPS = 2
"""Steps under the meters; the figures are the last one's, since DDP rebuilds its buckets in the second of all."""

CASES: list[tuple[int, str, Precision]] = [
    (2, UNEVEN, "mixed"),
    (2, UNEVEN, "fp32"),
    (4, UNEVEN, "mixed"),
    (4, "mlp", "mixed"),
    (2, "gpt2-rehearsal", "mixed"),
]
"""World size, workload and precision: each world, each precision, rows that divide and that do not, tied parameters."""

CASE_IDS = [f"{workload.rpartition(':')[2]}-{precision}-{world_size}" for world_size, workload, precision in CASES]


@dataclass(frozen=True)
class Reading:
    """One rank's figures of its last step, and the shapes to reckon them from."""

    resident_bytes: int
    gradient_bytes: int
    """Freed when the gradients are set to None, the loss not counted."""
    held_bytes: int
    """What the loop and the model hold besides parameters: the batch and the model's buffers."""
    tallies: list[CollectiveTally]
    blocks: list[list[Shape]]
    root: list[Shape]
    phase_bytes: dict[str, int]
    """Of the memory meter, and ``resident``."""
    live_bytes: list[int]
    """All that is alive after each step under the meters: a leak shows here, even one that lowers a step's peak."""

    @property
    def units(self) -> list[list[Shape]]:
        """The shapes of all units of sharding."""
        return [*self.blocks, self.root]


@functools.cache
def readings(pool: RankPool, strategy: str, workload: str, precision: Precision) -> list[Reading]:
    """One launch of the arm on this pool, each rank's reading; two budgets share it, since it repeats to the byte."""
    result: list[Reading] = pool.run(read_arm, strategy, workload, precision)
    return result


def check_resident(found: Sequence[Reading], strategy: str, workload: str, precision: Precision, meaning: str) -> None:
    """Fail unless every rank's resident bytes are the sum of the ledger's buffers; ``meaning`` ends the message."""
    for rank, reading in enumerate(found):
        buffers = ledger.resident_buffers(strategy, reading.units, len(found), rank, precision)
        buffers["batch and module buffers"] = reading.held_bytes
        difference = reading.resident_bytes - sum(buffers.values())
        assert difference == 0, (
            f"resident, {strategy} of {workload} in {precision}, rank {rank} of cpu-gloo-{len(found)}: measured "
            f"{reading.resident_bytes:,} bytes, the ledger says {ledger.explain(buffers)}, difference {difference:+,}. "
            f"{meaning}"
        )


def read_arm(strategy: str, workload: str, precision: Precision) -> Reading:
    """Read one arm on this rank."""
    return read_on(current().platform, strategy, workload, precision)


def read_played(
    strategy: str, workload: str, precision: Precision, world_size: int, ranks: Sequence[int]
) -> list[Reading]:
    """Read one arm as each of these ranks of N, played in turn by this process."""
    read = []
    gc.collect()
    gc.freeze()  # for the life of this process: walking all that it has imported takes longer than a step
    for rank in ranks:
        with playing_rank(rank, world_size) as platform:
            read.append(read_on(platform, strategy, workload, precision))
        gc.collect()  # a sharded module refers to itself
    return read


def read_on(
    platform: Platform, strategy: str, workload: str, precision: Precision, memory: CpuMemoryMeter | None = None
) -> Reading:
    """Build one arm, take a step to steady it and ``STEPS`` under the meters; the last one's figures."""
    memory, collectives = memory or CpuMemoryMeter(), CollectivesMeter()
    blocks, root, buffer_bytes = _shapes(resolve_workload(workload))
    live = []
    with memory.watch():
        trainer = Trainer(Arm(workload, strategy, Settings(precision=precision)), platform)
        trainer.step()
        for _ in range(STEPS):
            memory.start()
            collectives.start()
            # Its storage may be larger than a scalar: mse_loss leaves the loss in the buffer of its terms.
            loss_bytes = trainer.step(memory.mark).untyped_storage().nbytes()
            tallies = collectives.stop()
            samples = memory.stop()
            live.append(samples.resident_bytes)
    held = buffer_bytes + tensor_bytes(trainer.batch)
    gradients = samples.phase_bytes["after_optimizer"] - samples.resident_bytes - loss_bytes
    phases = samples.phase_bytes | {"resident": samples.resident_bytes}
    return Reading(samples.resident_bytes, gradients, held, tallies, blocks, root, phases, live)


def tensor_bytes(batch: torch.Tensor | Sequence[torch.Tensor]) -> int:
    """Bytes of a batch: a tensor, or several."""
    tensors = [batch] if isinstance(batch, torch.Tensor) else batch
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def halved() -> Workload:
    """Return the uneven stack with bfloat16 parameters, hence gradients and moments; for precision ``fp32``."""
    whole = uneven()
    return dataclasses.replace(
        whole,
        name="halved",
        model=lambda: whole.model().bfloat16(),
        batch=lambda generator: whole.batch(generator).bfloat16(),
        loss=lambda model, batch: F.mse_loss(model(batch).float(), batch[:, :1].float()),
    )


def uneven() -> Workload:
    """Return a stack whose rows (5, 7, 3, 1) leave some ranks with less and some with nothing."""
    return Workload(
        name="uneven",
        model=lambda: nn.Sequential(
            nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3)),
            nn.Sequential(nn.Linear(3, 7), nn.ReLU(), nn.Linear(7, 3)),
            nn.Linear(3, 1),
        ),
        batch=lambda generator: torch.randn(6, 3, generator=generator),
        loss=lambda model, batch: F.mse_loss(model(batch).float(), batch[:, :1]),
        optimizer=adamw,
        blocks=lambda model: list(model.children())[:2],
        tokens_per_batch=6,
    )


def _shapes(workload: Workload) -> tuple[list[list[Shape]], list[Shape], int]:
    """Shapes of each block's parameters, of those left to the root, and the bytes of the model's buffers."""
    model = build_model(workload, SEED)
    blocks, root = unit_shapes(workload, model)
    buffers = sum(buffer.untyped_storage().nbytes() for buffer in model.buffers())
    return [[*block] for block in blocks], [*root], buffers
