"""Property: what is read on fake tensors is what real ones hold, and a regression shows in it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from fixtures.errors import InvalidMeasurementError, UsageError
from fixtures.full_size import FullSize, read_full_size
from fixtures.measurements import Settings
from fixtures.meters.memory import CpuMemoryMeter
from fixtures.models import GPT, LARGE
from fixtures.platforms import Platform, playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.training import Arm, Trainer
from fixtures.workloads import Workload
from perf_tests.four_accounts import DdpReading, here, read_knob, shallow_gpt2
from perf_tests.test_gpt2_large import check_price, check_resident

pytestmark = pytest.mark.cpu

N = 8
SHALLOW = "perf_tests.four_accounts:shallow_gpt2"
SMALL = "gpt2-rehearsal"


class GPTWithLoss(GPT):
    """A GPT-2 whose forward returns the loss: tokens (B, T + 1) int64 -> 0-dim."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of the tokens that follow."""
        logits = super().forward(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def loss_inside() -> Workload:
    """The shallow GPT-2 with its loss inside the root unit."""
    model = lambda: GPTWithLoss(replace(LARGE, layers=4))  # noqa: E731
    return replace(shallow_gpt2(), model=model, loss=lambda model, batch: model(batch))


def read_real(strategy: str, rank: int) -> tuple[int, dict[str, int]]:
    """Resident bytes and phases of a steady step of the same rank on real tensors."""
    meter = CpuMemoryMeter()
    with playing_rank(rank, N) as platform, meter.watch():
        trainer = Trainer(Arm(SMALL, strategy, Settings()), platform)
        trainer.step()
        meter.start()
        trainer.step(meter.mark)
        samples = meter.stop()
    return samples.resident_bytes, samples.phase_bytes


@pytest.mark.parametrize(("strategy", "rank"), [("fsdp2", 0), ("fsdp2-noreshard", N - 1)])
def test_fake_tensors_read_as_real_ones(solo: Callable[[int], RankPool], strategy: str, rank: int) -> None:
    """Resident and every phase but the optimizer's peak, whose kernel differs, are the same bytes on real tensors."""
    resident, phases = solo(N).run(read_real, strategy, rank)[0]
    fake = solo(N).run(read_full_size, SMALL, strategy, N, rank)[0]
    compared = [phase for phase in phases if phase != "peak_optimizer"]
    assert fake.resident_bytes == resident
    assert {phase: fake.phase_bytes[phase] for phase in compared} == {phase: phases[phase] for phase in compared}


def read_and_count(world_size: int) -> int:
    """Read the small model once; the objects that Python keeps track of afterwards."""
    read_full_size(SMALL, "fsdp2", world_size)
    gc.collect()
    return len(gc.get_objects())


def test_a_reading_leaves_nothing_behind(solo: Callable[[int], RankPool]) -> None:
    """From reading to reading a process keeps nothing more: no notes of operators, no hook of a group that is gone."""
    _, second, third = (solo(N).run(read_and_count, N)[0] for _ in range(3))
    assert third == second, f"one more reading left {third - second} more objects on the rank"


def test_a_loss_inside_the_root_has_a_block_gathered_at_the_peak(solo: Callable[[int], RankPool]) -> None:
    """Where the root computes the loss, backward gathers the last block before the peak: the knob costs one less."""
    reshard, noreshard = solo(N).run(read_knob, f"{__name__}:loss_inside", N, steps=1)[0]
    block = 2 * sum(torch.Size(shape).numel() for shape in reshard.blocks[0])
    assert noreshard.peak_bytes - reshard.peak_bytes == 3 * block


def test_an_arm_that_reads_data_is_refused() -> None:
    """DDP is refused by name."""
    with pytest.raises(UsageError, match="strategy 'ddp' does not run on fake tensors: only fsdp2 and fsdp2-noreshard"):
        read_full_size(SMALL, "ddp", N)


@pytest.mark.parametrize(
    ("fault", "resident", "price"),
    [
        ("ignored_reshard_knob", None, r"peak, fsdp2-noreshard, .*measured \+0 bytes"),
        (
            "kept_unsharded_parameters",
            r"resident, fsdp2, rank 0 of cpu-solo-8.*difference \+",
            r"peak, fsdp2-noreshard",
        ),
    ],
)
def test_a_regression_shows_at_full_size(fault: str, resident: str | None, price: str) -> None:
    """An ignored knob fails the price; parameters that are never freed fail both, as they will for GPT-2 Large."""
    with RankPool(Platform.solo(N), rank_patch=f"correctness_tests.suite.faults.{fault}:apply") as pool:
        reshard, noreshard = pool.run(read_knob, SHALLOW, N, steps=1)[0]
    with pytest.raises(AssertionError, match=resident) if resident else nullcontext():
        check_resident(reshard)
    with pytest.raises(AssertionError, match=price):
        check_price(reshard, noreshard)


def test_no_proportion_no_account() -> None:
    """Where DDP's bytes are no constant times the parameters nothing is said of the large model."""
    reading = FullSize("fsdp2", N, 0, 1, 0, 0, {"peak_forward": 0, "peak_backward": 0}, [], [], [])
    ddp = [DdpReading(100, 1600 + 8, 8), DdpReading(200, 3200 + 9, 8)]
    with pytest.raises(InvalidMeasurementError, match=r"differ .*16\.000000 at 100, 16\.005000 at 200 parameters"):
        here((reading, reading), ddp)
