"""The experiment's four accounts as one table: published, the ledger's, and measured here, without a GPU.

    python -m perf_tests.four_accounts          # --zero3: DeepSpeed too, in minutes and 7 GB

GPT-2 Large itself, rank 0 of 8: FSDP2 with and without reshard on fake tensors, DDP on real ones at three smaller sizes
(its reducer, in C++, reads data) and in proportion to its parameters, once that is seen to be exact. Under a minute on
2 cores. Exit status 2: a reading that can't be right, one line on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import torch

from fixtures import ledger
from fixtures.errors import InvalidMeasurementError, UsageError
from fixtures.extras import ZERO3
from fixtures.full_size import FullSize, read_full_size
from fixtures.ledger.published import WORLD_SIZE
from fixtures.ledger.shapes import FP32
from fixtures.measurements import Settings
from fixtures.meters.memory import CpuMemoryMeter
from fixtures.models import LARGE, GPTConfig
from fixtures.platforms import Platform, playing_rank
from fixtures.reconciliation import Here, four_accounts
from fixtures.report.accounts import accounts_text
from fixtures.strategies import build_model
from fixtures.training import SEED, Arm, Trainer
from fixtures.workloads import gpt2, resolve_workload, unit_shapes
from perf_tests.account_zero3 import measure

WORKLOAD = "gpt2-large"
KNOB = ("fsdp2", "fsdp2-noreshard")
Knob = tuple[FullSize, FullSize]

small_gpt2 = partial(gpt2, "gpt2-width-64", GPTConfig(layers=2, heads=2, width=64, vocab=512, context=16), 1)
middle_gpt2 = partial(gpt2, "gpt2-width-96", GPTConfig(layers=3, heads=3, width=96, vocab=512, context=16), 1)
wide_gpt2 = partial(gpt2, "gpt2-width-160", GPTConfig(layers=4, heads=5, width=160, vocab=512, context=16), 1)
SIZES = ("small_gpt2", "middle_gpt2", "wide_gpt2")
"""Three widths at which DDP trains real tensors, none a multiple of another."""

shallow_gpt2 = partial(gpt2, "gpt2-large-4-layers", replace(LARGE, layers=4), 4)
"""GPT-2 Large with 4 of its 36 layers: what tests of the reading itself take."""


@dataclass(frozen=True)
class DdpReading:
    """What rank 0 holds under DDP; ``small_bytes`` is of it what does not grow with the parameters: Adam's step
    counters, 4 bytes for each parameter tensor, and the batch."""

    num_params: int
    resident_bytes: int
    small_bytes: int

    @property
    def bytes_per_parameter(self) -> Fraction:
        """What is left for each parameter, exactly."""
        return Fraction(self.resident_bytes - self.small_bytes, self.num_params)


def read_knob(workload: str = WORKLOAD, world_size: int = WORLD_SIZE, steps: int = 2) -> Knob:
    """Both sides of the reshard knob, in this process; with reshard first."""
    reshard, noreshard = (read_full_size(workload, strategy, world_size, steps=steps) for strategy in KNOB)
    return reshard, noreshard


def read_ddp() -> list[DdpReading]:
    """DDP at each of the three sizes, in this process, which plays rank 0 of 8."""
    return [_read_ddp(f"perf_tests.four_accounts:{size}") for size in SIZES]


def read_zero3() -> dict[str, int]:
    """Resident bytes of DeepSpeed's stage 3 by strategy, on real tensors; UsageError without the extra zero3."""
    if not ZERO3.installed:
        raise UsageError(f"{ZERO3.missing}.")
    arms, platform = ("zero3", "zero3-defaults"), Platform.solo(WORLD_SIZE)
    readings = {arm: measure(arm, "perf_tests.account_zero3:large_in_brief", platform) for arm in arms}
    return {arm: reading.resident_bytes - reading.held_bytes for arm, reading in readings.items()}


def here(knob: Knob, ddp: Sequence[DdpReading], zero3: Mapping[str, int] | None = None) -> Here:
    """The readings as the accounts take them; InvalidMeasurementError if DDP's bytes are no constant times psi."""
    reshard, noreshard = knob
    slopes = {reading.bytes_per_parameter for reading in ddp}
    if len(slopes) != 1:
        found = ", ".join(f"{float(reading.bytes_per_parameter):.6f} at {reading.num_params:,}" for reading in ddp)
        raise InvalidMeasurementError(
            f"resident, ddp, rank 0 of cpu-solo-{WORLD_SIZE}: bytes a parameter differ with the size of the model: "
            f"{found} parameters. So nothing follows for {WORKLOAD}. Something that DDP holds is not in proportion to "
            "the parameters: run pytest -m cpu perf_tests/test_resident_budget.py, which names each buffer."
        )
    shapes = [shape for unit in reshard.units for shape in unit]
    scalars = FP32 * len(shapes)
    return Here(
        ddp_resident_bytes=slopes.pop() * ledger.num_params(shapes) + scalars,
        fsdp2_resident_bytes=reshard.resident_bytes - reshard.held_bytes,
        noreshard_price_bytes=noreshard.peak_bytes - reshard.peak_bytes,
        zero3_resident_bytes=zero3 or {},
    )


def accounts_report(knob: Knob, ddp: Sequence[DdpReading], zero3: Mapping[str, int] | None = None) -> str:
    """What the command prints: the table and its notes."""
    accounts = four_accounts(knob[0].blocks, knob[0].root, here(knob, ddp, zero3))
    return accounts_text(f"{WORKLOAD}, {WORLD_SIZE} ranks: the four accounts (torch {torch.__version__})", accounts)


def _read_ddp(workload: str) -> DdpReading:
    shapes = [p for unit in _units(workload) for p in unit]
    meter = CpuMemoryMeter()
    with playing_rank(0, WORLD_SIZE) as platform, meter.watch():
        trainer = Trainer(Arm(workload, "ddp", Settings()), platform)
        trainer.step()  # in the first step the reducer rebuilds its buckets
        meter.start()
        trainer.step()
        resident = meter.stop().resident_bytes
        small = FP32 * len(shapes) + trainer.batch.untyped_storage().nbytes()
    return DdpReading(ledger.num_params(shapes), resident, small)


def _units(workload: str) -> list[list[tuple[int, ...]]]:
    found = resolve_workload(workload)
    blocks, root = unit_shapes(found, build_model(found, SEED))
    return [*blocks, root]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0, or 2 for a reading that can't be right or an extra that is not there."""
    parser = argparse.ArgumentParser(prog="four_accounts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--zero3", action="store_true", help="measure DeepSpeed too (minutes, 7 GB, extra zero3)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        zero3 = read_zero3() if options.zero3 else None
        print(accounts_report(read_knob(), read_ddp(), zero3), end="")
    except (InvalidMeasurementError, UsageError) as error:
        print(f"four_accounts: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
