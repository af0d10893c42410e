"""Measurements that nobody measured: launches drawn from stated variances, so that a verdict can be known beforehand.

The model: in launch i of an arm, a step takes ``centre * exp(shared_i + own_i)``. ``shared_i`` (sd ``shared_sd``) is
what both arms of pair i have in common and what a ratio removes; ``own_i`` (sd ``own_sd``) is each launch's own. The
log ratio of a pair then has standard deviation ``own_sd * sqrt(2)``. Memory is exact: every launch reads the same.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from fixtures.gate.baselines import BaselineFile
from fixtures.gate.comparisons import compare
from fixtures.gate.proposals import Asked, propose
from fixtures.measurements import (
    GIB,
    CollectiveTally,
    Measurement,
    PlatformRecord,
    Provenance,
    RankSamples,
    Settings,
    Stack,
    WorkloadRecord,
)

CPU4 = PlatformRecord(device_type="cpu", backend="gloo", world_size=4)
WORKLOAD = WorkloadRecord(name="gpt2-rehearsal", num_params=1_000_000, tokens_per_batch=256, shape_hash="abc123")
CONTROLS = dict.fromkeys(("memory", "clock", "collectives"), "read right")
STACK = Stack(torch="2.13.0", python="3.11.9")


@dataclass(frozen=True)
class Figures:
    """What an arm costs: bytes and ms."""

    resident: int
    peak: int
    step_ms: float

    def scaled(self, *, resident: float = 1.0, peak: float = 1.0, step: float = 1.0) -> Figures:
        """These figures with a slip planted."""
        return Figures(round(self.resident * resident), round(self.peak * peak), self.step_ms * step)


ARMS = {
    "ddp": Figures(12 * GIB, 20 * GIB, 480.0),
    "fsdp2": Figures(2 * GIB, 9 * GIB, 340.0),
    "fsdp2-noreshard": Figures(2 * GIB, 10 * GIB, 280.0),
}


@dataclass(frozen=True)
class Job:
    """A job to be drawn; the same seed draws the same launches."""

    arms: Mapping[str, Figures] = field(default_factory=lambda: dict(ARMS))
    launches: int = 6
    own_sd: float = 0.0
    shared_sd: float = 0.0
    seed: int = 0
    platform: PlatformRecord = CPU4
    workload: WorkloadRecord = WORKLOAD
    settings: Settings = field(default_factory=lambda: Settings(warmup_steps=2, timed_steps=4, inspected_steps=3))
    stack: Stack = STACK
    date: str = "2026-05-02T03:04:05+00:00"
    rank_patch: str | None = None

    def measurements(self) -> list[Measurement]:
        """Every launch of every arm, in order."""
        draw = random.Random(self.seed)
        made: list[Measurement] = []
        for launch in range(self.launches):
            shared = draw.gauss(0.0, self.shared_sd)
            for strategy, figures in self.arms.items():
                step = figures.step_ms * math.exp(shared + draw.gauss(0.0, self.own_sd))
                made.append(self._launch(strategy, figures, step, launch, order=len(made)))
        return made

    def _launch(self, strategy: str, figures: Figures, step_ms: float, launch: int, order: int) -> Measurement:
        kind, count = {"ddp": ("all-reduce", 1), "fsdp2": ("all-gather", 9)}.get(strategy, ("all-gather", 5))
        collectives = [CollectiveTally(kind=kind, dtype="bfloat16", count=count, bytes=1000)]
        ranks = [
            RankSamples(
                rank=rank,
                step_ms=[step_ms] * self.settings.timed_steps,
                resident_bytes=figures.resident,
                peak_bytes=figures.peak,
                resident_by_step=[figures.resident] * self.settings.inspected_steps,
                collectives=collectives,
                messages="0123456789abcdef",
            )
            for rank in range(self.platform.world_size)
        ]
        return Measurement(
            platform=self.platform,
            workload=self.workload,
            strategy=strategy,
            settings=self.settings,
            launch=launch,
            order=order,
            ranks=ranks,
            provenance=Provenance(
                stack=self.stack,
                date=self.date,
                commit="0123456789ab",
                dirty=False,
                rank_patch=self.rank_patch,
                controls=CONTROLS,
            ),
        )


def accepted(job: Job | None = None, reason: str = "the first night") -> BaselineFile:
    """The baseline that a job (default: quiet, nothing planted) becomes, times included."""
    compared = compare((job or Job()).measurements(), None, gate_times=True)
    file = propose(compared, None, Asked(reason)).file
    assert file is not None
    return file
