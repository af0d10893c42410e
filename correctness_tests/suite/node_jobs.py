"""What a rank of several nodes does, as a job of a pool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from correctness_tests.suite.night_doubles import ScriptedDevices
from fixtures.measurements import Settings
from fixtures.meters.telemetry import NightWatch
from fixtures.ranks.worker import current
from fixtures.training import Arm
from perf_tests import bench_fsdp


def measure_and_write(folder: str) -> None:
    """Measure one launch of ddp on devices of a script, rank 1's throttled, and write this rank's part of it."""
    devices = ScriptedDevices(reasons={1: ["power brake"]}, running={1: {os.getpid(): "python", 666: "miner"}})
    pytest.MonkeyPatch().setattr(bench_fsdp, "watch_of_rank", lambda platform, rank: NightWatch(devices, [rank]))
    arm = Arm("mlp", "ddp", Settings(warmup_steps=1, timed_steps=1, inspected_steps=1))
    platform = current().platform
    bench_fsdp.write_part(bench_fsdp.measure(arm, platform), platform, arm, Path(folder))
