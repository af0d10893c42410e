"""What the phase accounts train, and how a failing one reads: MLPs of several sizes, whose memory the ledger knows."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from fixtures import ledger
from fixtures.ledger import Moment, Precision
from fixtures.meters.census import NAMED, OTHERS, Birth, Census
from fixtures.meters.memory import CpuMemoryMeter
from fixtures.models import MLPBlock
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.workloads import Workload, adamw, mlp, unit_shapes
from perf_tests.budgets import Reading, read_arm, read_on, read_played

WORLD_SIZES = (2, 4, 8)


@dataclass(frozen=True)
class Size:
    """Of an MLP: L, C, F, B, and the features in and out of a linear stem and head around the blocks, if any."""

    layers: int
    width: int
    hidden: int
    rows: int
    ends: tuple[int, int] | None = None

    def workload(self, name: str) -> Workload:
        """Of ``fixtures.workloads.mlp``, with ends of its own if it has any: those are the root unit's."""
        if self.ends is None:
            return mlp(name, self.layers, self.width, self.hidden, self.rows)
        features, outputs = self.ends
        return Workload(
            name=name,
            model=self._between_ends,
            batch=lambda generator: (
                torch.randn(self.rows, features, generator=generator),
                torch.randn(self.rows, outputs, generator=generator),
            ),
            loss=lambda model, batch: F.mse_loss(model(batch[0]).float(), batch[1]),
            optimizer=adamw,
            blocks=lambda model: list(model.children())[1:-1],
            tokens_per_batch=self.rows,
        )

    def activations(self, strategy: str, precision: Precision) -> ledger.Activations:
        """What the ledger says that this model holds besides its parameters."""
        casting = ledger.casting_of(strategy, precision)
        return ledger.mlp_activations(self.layers, self.width, self.hidden, self.rows, casting, self.ends)

    def _between_ends(self) -> nn.Module:
        assert self.ends is not None
        blocks = (MLPBlock(self.width, self.hidden) for _ in range(self.layers))
        return nn.Sequential(nn.Linear(self.ends[0], self.width), *blocks, nn.Linear(self.width, self.ends[1]))


SIZES = {
    "even": Size(layers=4, width=64, hidden=256, rows=16),  # every N divides every dimension
    "odd": Size(layers=3, width=6, hidden=10, rows=5),  # 6 and 10 rows: of 8 ranks some have fewer, or none
    "broad": Size(layers=2, width=48, hidden=40, rows=8),
    "ended": Size(layers=2, width=12, hidden=20, rows=5, ends=(7, 3)),  # a root unit with parameters
}
even, odd, broad, ended = (partial(size.workload, name) for name, size in SIZES.items())


@functools.cache
def units_of(size: str) -> list[list[ledger.Shape]]:
    """Parameter shapes of each block, then of the root."""
    workload = SIZES[size].workload(size)
    blocks, root = unit_shapes(workload, workload.model())
    return [[*unit] for unit in [*blocks, root]]


def reference(size: str) -> str:
    """What ranks resolve the workload by."""
    return f"{__name__}:{size}"


@functools.cache
def played(
    pool: RankPool, strategy: str, size: str, precision: Precision, world_size: int, ranks: tuple[int, ...]
) -> list[Reading]:
    """Readings of these ranks of N, played on a solo pool."""
    result: list[list[Reading]] = pool.run(read_played, strategy, reference(size), precision, world_size, ranks)
    return result[0]


@functools.cache
def communicating(pool: RankPool, strategy: str, size: str, precision: Precision) -> list[Reading]:
    """Readings of all ranks of a gloo pool."""
    result: list[Reading] = pool.run(read_arm, strategy, reference(size), precision)
    return result


@dataclass(frozen=True)
class PhaseArm:
    """One rank of one arm, as its accounts name it."""

    strategy: str
    size: str
    precision: Precision
    world_size: int
    rank: int
    platform: str

    def moments(self, reading: Reading) -> dict[str, Moment]:
        """The ledger's moments for this rank."""
        activations = SIZES[self.size].activations(self.strategy, self.precision)
        return ledger.phase_moments(
            self.strategy, reading.blocks, reading.root, self.world_size, self.rank, self.precision, activations
        )

    def check(self, reading: Reading, solo: Callable[[], RankPool]) -> None:
        """Fail, naming each phase that is not the ledger's to the byte, and the buffer that moved (by a census)."""
        moments = self.moments(reading)
        wrong = [phase for phase, moment in moments.items() if reading.phase_bytes[phase] != moment.bytes]
        if not wrong:
            return
        place = f"{self.strategy} of {self.size} in {self.precision}, rank {self.rank} of {self.platform}"
        lines = [
            f"{phase}, {place}: measured {(measured := reading.phase_bytes[phase]):,} bytes, the ledger says "
            f"{ledger.explain(moments[phase].buffers)} ({moments[phase].where}), "
            f"difference {measured - moments[phase].bytes:+,}."
            for phase in wrong
        ]
        peaks = solo().run(take_census, self.strategy, self.size, self.precision, self.world_size, self.rank)[0]
        for phase in (phase for phase in wrong if phase in peaks):
            lines += [
                f"At {phase}, by buffer (live after each step: {reading.live_bytes} bytes):",
                *compared(peaks[phase], moments[phase]),
            ]
        raise AssertionError("\n".join([*lines, MEANING]))


MEANING = (
    "More: a buffer is kept past its use, taken twice, or wider than it was. Less: torch frees something earlier now, "
    "which the ledger must learn. Both ways in one phase: its fullest moment is another one now. Every phase: look at "
    "resident first. To see all that was alive at a peak, "
    "print perf_tests/phase_arms.py:take_census; what torch does is written down in fixtures/ledger/schedule_*.py."
)

ONE_NAME = {
    "padding": "parameters",
    "moments": "optimizer state",
    "steps": "optimizer state",
    "zeros between gradients": "flat gradients",
}
"""Buffers of the ledger that a census can't tell apart."""


def take_census(
    strategy: str, size: str, precision: Precision, world_size: int, rank: int
) -> dict[str, Counter[Birth]]:
    """Play the rank once more, slowly, and say who made what was alive at the peak of each phase."""
    census = Census()
    with playing_rank(rank, world_size) as platform:
        read_on(platform, strategy, reference(size), precision, CpuMemoryMeter(census))
    return dict(zip(("peak_forward", "peak_backward", "peak_optimizer"), census.fullest[-3:], strict=True))


def compared(peak: Counter[Birth], moment: Moment) -> list[str]:
    """A line for each buffer that a census and the ledger size differently, with its units and makers."""
    measured: Counter[str] = Counter()
    makers: dict[str, list[str]] = {}
    for birth, size in peak.most_common():
        measured[birth.buffer] += size
        if size:
            made = f"{size:,} by {birth.operator} in {birth.maker}"
            makers.setdefault(birth.buffer, []).append(f"{made} of {birth.unit}" if birth.unit else made)
    known: Counter[str] = Counter()
    for buffer, size in moment.buffers.items():
        name = ONE_NAME.get(buffer, buffer)
        known[name if name in NAMED else OTHERS] += size
    return [
        f"  {name}: measured {measured[name]:,}, ledger {known[name]:,}, {measured[name] - known[name]:+,}: "
        + "; ".join(makers.get(name, ["nothing"]))
        for name in sorted(measured.keys() | known.keys())
        if measured[name] != known[name]
    ]
