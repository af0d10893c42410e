"""Property: one process plays any rank of N, for every strategy, and issues that rank's collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from fixtures import ledger
from fixtures.errors import UsageError
from fixtures.measurements import CollectiveTally, PlatformRecord, Settings
from fixtures.meters.collectives import CollectivesMeter
from fixtures.platforms import Platform, playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.strategies import STRATEGIES, build_model
from fixtures.training import SEED, Arm, Trainer
from fixtures.workloads import resolve_workload, unit_shapes

pytestmark = pytest.mark.cpu

N = 4


def collectives_of_a_step(strategy: str) -> list[CollectiveTally]:
    """Two steps to steady the arm, and the collectives of the third."""
    trainer = Trainer(Arm("mlp", strategy, Settings()), current().platform)
    trainer.step()
    trainer.step()
    with CollectivesMeter() as meter:
        trainer.step()
    return meter.tallies()


def ranks_played() -> list[tuple[int, int]]:
    """Rank and world size as this process is each rank of 3 in turn, and afterwards."""
    played = []
    for rank in range(3):
        with playing_rank(rank, 3):
            played.append((dist.get_rank(), dist.get_world_size()))
    return [*played, (dist.get_rank(), dist.get_world_size())]


def play_on_a_real_rank() -> None:
    """Try to leave a real group."""
    with playing_rank(0, 2):
        pass


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_played_rank_issues_its_collectives(solo: Callable[[int], RankPool], strategy: str) -> None:
    """A steady step of each arm issues the collectives that the ledger names for N ranks."""
    workload = resolve_workload("mlp")
    shapes = unit_shapes(workload, build_model(workload, SEED))
    read = solo(N).run(collectives_of_a_step, strategy)[0]
    assert ledger.comparable(strategy, read) == ledger.steady_collectives(strategy, *shapes, N, "mixed")


def test_ranks_are_played_in_turn(solo: Callable[[int], RankPool]) -> None:
    """A solo rank is every rank of another world in turn, and then itself again."""
    assert solo(N).run(ranks_played) == [[(0, 3), (1, 3), (2, 3), (0, N)]]


def test_a_real_rank_stays_in_its_group(ranks: Callable[[int], RankPool]) -> None:
    """A rank of a real group is refused, since its peers would wait for it."""
    with pytest.raises(Exception, match="this process is a rank of a real process group"):
        ranks(2).run(play_on_a_real_rank)


@contextmanager
def one_device() -> Iterator[None]:
    """A machine whose torch says that it has one accelerator, an H200."""
    device = SimpleNamespace(
        get_device_name=lambda index: "NVIDIA H200",
        get_device_properties=lambda index: SimpleNamespace(total_memory=2**37),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.accelerator, "is_available", lambda: True)
        patch.setattr(torch.accelerator, "device_count", lambda: 1)
        patch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        patch.setattr(torch, "get_device_module", lambda kind: device)
        patch.setenv("NCCL_ALGO", "Ring")
        yield


def test_one_device_plays_a_rank_of_eight() -> None:
    """One accelerator is a platform of its own: model and memory in its key, no links, no settings of what is sent."""
    with one_device():
        platform = Platform.solo(8, accelerator=True)
        assert (platform.key, platform.processes) == ("cuda-solo-8--nvidia-h200-128gib", 1)
        assert (platform.device(0), platform.is_cpu) == (torch.device("cuda", 0), False)


def test_no_device_is_said() -> None:
    """Without an accelerator the error names what is needed and the rehearsal."""
    with pytest.raises(UsageError, match=r"needs 1 CUDA device, found 0\. .*--rehearse"):
        Platform.solo(8, accelerator=True)


def test_times_without_communication_are_not_gated() -> None:
    """A step time counts on real ranks of accelerators alone."""
    kinds = [("cuda", "nccl"), ("cuda", "solo"), ("cpu", "gloo"), ("cpu", "solo")]
    records = [PlatformRecord(device_type=device, backend=backend, world_size=8) for device, backend in kinds]
    assert [(record.times_count, record.processes) for record in records] == [
        (True, 8),
        (False, 1),
        (False, 8),
        (False, 1),
    ]


def test_the_key_names_one_process() -> None:
    """The platform's key says solo, and N is the world that is played."""
    platform = Platform.solo(8)
    assert (platform.key, platform.world_size, platform.processes) == ("cpu-solo-8", 8, 1)
