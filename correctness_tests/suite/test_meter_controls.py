"""Property: a meter that reads wrong is refused by its control, and a right one never is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fixtures.errors import InvalidMeasurementError
from fixtures.meters import controls, storages
from fixtures.meters.clock import Clock
from fixtures.meters.collectives import CollectivesMeter
from fixtures.meters.memory import CpuMemoryMeter, MemorySamples
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu


def pass_controls() -> dict[str, str]:
    """The controls as a launch runs them."""
    return controls.check_controls(current().platform)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_right_meters_pass(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """All three controls read right on every rank and say what they read."""
    for read in ranks(world_size).run(pass_controls):
        assert list(read) == ["memory", "clock", "collectives"]
        assert read["memory"] == "resident 262144 of 262144 bytes, peak 458752 of 458752 bytes"
        assert read["collectives"].startswith(f"all-gather bfloat16 {2 * world_size * controls.ELEMENTS} bytes; ")


class HalvesMemory(CpuMemoryMeter):
    """Reads half of what is resident."""

    def stop(self) -> MemorySamples:
        """Half."""
        found = super().stop()
        return MemorySamples(found.resident_bytes // 2, found.peak_bytes, None, found.phase_bytes)


class ForgetsThePeak(CpuMemoryMeter):
    """Takes what is resident for the peak."""

    def stop(self) -> MemorySamples:
        """No peak."""
        found = super().stop()
        return MemorySamples(found.resident_bytes, found.resident_bytes, None, found.phase_bytes)


class CountsViews(CpuMemoryMeter):
    """Counts every tensor, views too: as if a storage were its view."""

    def mark(self, phase: str) -> None:
        """A view of 256 KiB too many."""
        super().mark(phase)
        self._phases.bytes[f"after_{phase}"] += 64 * controls.KIB


class MissesResizes(CpuMemoryMeter):
    """Does not see ``resize_(0)``, so that FSDP's freed parameters would count."""

    def stop(self) -> MemorySamples:
        """Count an emptied storage as full."""
        found = super().stop()
        return MemorySamples(found.resident_bytes + 256 * controls.KIB, found.peak_bytes, None, found.phase_bytes)


class HalvesTime(Clock):
    """Runs at half speed."""

    def stop(self) -> list[float]:
        """Half of each lap."""
        return [lap / 2 for lap in super().stop()]


class AddsTime(Clock):
    """Reads a fifth of a second too much in each lap."""

    def stop(self) -> list[float]:
        """More than the time that passed."""
        return [lap + 200.0 for lap in super().stop()]


class LosesALap(Clock):
    """Takes two laps for one."""

    def stop(self) -> list[float]:
        """The sum alone."""
        return [sum(super().stop())]


class HalvesMessages(CollectivesMeter):
    """Counts the input of an all-gather in place of its output, as a rank's own share."""

    def tallies(self) -> list[object]:  # type: ignore[override]
        """Half of every message."""
        return [tally.model_copy(update={"bytes": tally.bytes // 2}) for tally in super().tallies()]


class LosesTheFirst(CollectivesMeter):
    """Does not see the first collective."""

    def tallies(self) -> list[object]:  # type: ignore[override]
        """All but the first."""
        del self.events[:1]
        return list(super().tallies())


BROKEN: dict[str, tuple[type[Any], ...]] = {
    "memory": (HalvesMemory, ForgetsThePeak, CountsViews, MissesResizes),
    "clock": (HalvesTime, AddsTime, LosesALap),
    "collectives": (HalvesMessages, LosesTheFirst),
}


def refusal(meter: str, broken: str) -> str | None:
    """The message with which the control refuses the broken meter on this rank; None when it passes."""
    platform = current().platform
    (kind,) = [kind for kind in BROKEN[meter] if kind.__name__ == broken]
    made = kind(platform) if meter == "clock" else kind()
    check: Callable[..., str] = getattr(controls, f"check_{meter}")
    try:
        check(made, platform)
    except InvalidMeasurementError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("meter", "broken"), [(meter, kind.__name__) for meter, kinds in BROKEN.items() for kind in kinds]
)
def test_a_broken_meter_is_refused(ranks: Callable[[int], RankPool], meter: str, broken: str) -> None:
    """Each way of reading wrong is caught on every rank, with a message that names meter, rank, platform and torch."""
    for rank, message in enumerate(ranks(2).run(refusal, meter, broken)):
        assert message is not None, f"{broken} passed its control on rank {rank}"
        assert message.startswith(f"the {meter} meter's control failed on rank {rank} of cpu-gloo-2, torch ")
        assert " read " in message
        assert "known to be" in message


def refusal_of_a_torch_that(breaks: str) -> str | None:
    """Break the ground under a right meter: storages whose resizing is not seen, an average that is a sum."""
    if breaks == "resizes unseen":
        patched, name, value = storages.StorageTable, "add", _add_once
        meter = "memory"
    else:
        patched, name, value = controls, "reduce_scatter", _summing_reduce_scatter  # type: ignore[assignment]
        meter = "collectives"
    original = getattr(patched, name)
    setattr(patched, name, value)
    made = CpuMemoryMeter() if meter == "memory" else CollectivesMeter()
    check: Callable[..., str] = getattr(controls, f"check_{meter}")
    try:
        check(made, current().platform)
    except InvalidMeasurementError as error:
        return str(error)
    finally:
        setattr(patched, name, original)
    return None


_original_add = storages.StorageTable.add
_original_reduce_scatter = controls.reduce_scatter


def _add_once(table: storages.StorageTable, storage: torch.UntypedStorage) -> None:
    if storage not in table:
        _original_add(table, storage)


def _summing_reduce_scatter(output: torch.Tensor, input: torch.Tensor, op: object = None) -> None:
    _original_reduce_scatter(output, input)


@pytest.mark.parametrize("breaks", ["resizes unseen", "averages summed"])
def test_a_broken_ground_is_refused(ranks: Callable[[int], RankPool], breaks: str) -> None:
    """The meters are right, what they stand on is not: the control says so."""
    assert all(ranks(2).run(refusal_of_a_torch_that, breaks))
