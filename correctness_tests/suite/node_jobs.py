"""What a rank of several nodes does, as a job of a pool."""

from __future__ import annotations

from pathlib import Path

from fixtures.measurements import Settings
from fixtures.ranks.worker import current
from fixtures.training import Arm, run_arm
from perf_tests.bench_fsdp import write_part


def measure_and_write(folder: str) -> None:
    """Measure one launch of ddp and write this rank's part of it."""
    arm = Arm("mlp", "ddp", Settings(warmup_steps=1, timed_steps=1, inspected_steps=1))
    platform = current().platform
    write_part(run_arm(arm, platform), platform, arm, Path(folder))
