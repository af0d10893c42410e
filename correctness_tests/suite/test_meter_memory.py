"""Property: both memory meters report resident, peak and phases of what happens between start and stop."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
import torch

from fixtures.meters.memory import AcceleratorMemoryMeter, CpuMemoryMeter, MemorySamples, memory_meter
from fixtures.platforms import Platform

pytestmark = pytest.mark.cpu

KIB = 1024


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    """Take what pytest holds out of the collector's reach, as a rank's fork server does: collecting is then cheap."""
    gc.freeze()
    yield
    gc.unfreeze()


def bytes_of(size: int) -> torch.Tensor:
    """A tensor of that many bytes."""
    return torch.zeros(size, dtype=torch.uint8)


def test_resident_is_what_is_left_and_peak_what_was_at_once() -> None:
    """Build, then one inspected step: what the build left counts in both, a temporary in the peak alone."""
    meter = CpuMemoryMeter()
    with meter.watch():
        parameters = bytes_of(4 * KIB)
    with meter.watch():
        meter.start()
        bytes_of(2 * KIB)
        samples = meter.stop()
    assert samples == MemorySamples(resident_bytes=4 * KIB, peak_bytes=6 * KIB)
    del parameters


@pytest.mark.parametrize("steps", [(KIB, 2 * KIB), (2 * KIB, KIB)])
def test_phases_have_their_own_peaks(steps: tuple[int, ...]) -> None:
    """Each mark notes what is alive and the peak since the mark before; over several steps the largest."""
    meter = CpuMemoryMeter()
    with meter.watch():
        meter.start()
        for activations in steps:
            kept = bytes_of(activations)
            meter.mark("forward")
            bytes_of(8 * KIB)
            del kept
            meter.mark("backward")
        samples = meter.stop()
    assert samples.phase_bytes == {
        "after_forward": 2 * KIB,
        "peak_forward": 2 * KIB,
        "after_backward": 0,
        "peak_backward": 10 * KIB,
    }
    assert samples.peak_bytes == 10 * KIB


def test_a_peak_after_the_last_mark_counts() -> None:
    """What happens between the last mark and stop belongs to no phase, and to the whole peak all the same."""
    meter = CpuMemoryMeter()
    with meter.watch():
        meter.start()
        meter.mark("forward")
        bytes_of(KIB)
        assert meter.stop().peak_bytes == KIB


def test_what_was_there_before_counts_only_when_adopted() -> None:
    """Tensors made before the first watch are not the arm's, unless it says so."""
    before, batch = bytes_of(KIB), bytes_of(2 * KIB)
    meter = CpuMemoryMeter()
    with meter.watch():
        meter.start()
        assert meter.stop().resident_bytes == 0
        meter.adopt([batch])
        meter.start()
        assert meter.stop().resident_bytes == 2 * KIB
    del before


def test_a_death_while_nobody_watches_counts() -> None:
    """Timed steps run unwatched; what they free of the build is gone from the count."""
    meter = CpuMemoryMeter()
    with meter.watch():
        kept, dropped = bytes_of(KIB), bytes_of(2 * KIB)
    del dropped
    with meter.watch():
        meter.start()
        assert meter.stop().resident_bytes == KIB
    del kept


def test_what_an_unwatched_step_leaves_alive_is_found() -> None:
    """A leak in the timed steps, a gradient included, does not hide from the inspected ones."""
    meter = CpuMemoryMeter()
    weight = torch.ones(KIB, requires_grad=True)
    before = bytes_of(16 * KIB)
    with meter.watch():
        pass
    leak = bytes_of(3 * KIB)
    (weight * 2).sum().backward()  # type: ignore[no-untyped-call]
    with meter.watch():
        meter.start()
        assert meter.stop().resident_bytes == 3 * KIB + 4 * KIB
    del leak, before


def test_what_a_backend_still_holds_is_waited_for() -> None:
    """A buffer of the last unwatched collective that a worker thread drops a moment later is not a leak."""
    meter = CpuMemoryMeter()
    with meter.watch():
        pass
    held = [bytes_of(KIB)]
    worker = threading.Timer(0.015, held.clear)
    worker.start()
    with meter.watch():
        meter.start()
        assert meter.stop() == MemorySamples(resident_bytes=0, peak_bytes=0)
    worker.join()


def test_starting_outside_watch_is_an_error() -> None:
    """Before watch and after it nothing would be seen, and a figure of nothing must not pass for a measurement."""
    meter = CpuMemoryMeter()
    with pytest.raises(RuntimeError, match="watch"):
        meter.start()
    with meter.watch():
        pass
    with pytest.raises(RuntimeError, match="watch"):
        meter.start()


def test_a_resized_storage_counts_with_its_new_size() -> None:
    """Gathered parameters come and go by resizing their storages, which no operator shows."""
    meter = CpuMemoryMeter()
    with meter.watch():
        meter.start()
        gathered = bytes_of(KIB)
        gathered.untyped_storage().resize_(3 * KIB)
        gathered.untyped_storage().resize_(0)
        assert meter.stop() == MemorySamples(resident_bytes=0, peak_bytes=3 * KIB)


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_counts_until_stop_and_the_collector_is_as_before(enabled: bool) -> None:
    """A tensor in a reference cycle is in the peak whenever the collector would have run, not in resident."""
    was_enabled = gc.isenabled()
    meter = CpuMemoryMeter()
    try:
        (gc.enable if enabled else gc.disable)()
        with meter.watch():
            meter.start()
            for _ in range(3):
                cycle: list[object] = [bytes_of(KIB)]
                cycle.append(cycle)
                del cycle
            samples = meter.stop()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert (samples.resident_bytes, samples.peak_bytes) == (0, 3 * KIB)


def test_the_platform_chooses_the_adapter() -> None:
    """CPU: intrusive, kept out of timed steps. Accelerator: free, and watching is nothing."""
    assert memory_meter(Platform.cpu(1)).intrusive is True
    assert memory_meter(Platform("cuda", "nccl", 8)).intrusive is False


class Allocator:
    """A stand-in for an accelerator's caching allocator: the five functions that the adapter calls, and no more."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.reserved = self.reserved_peak = 0
        self.calls: list[str] = []

    def take(self, size: int) -> None:
        """Allocate; a negative size frees, and the allocator keeps what it reserved."""
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, self.allocated)
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def memory_allocated(self) -> int:
        """As ``torch.accelerator.memory_allocated``."""
        return self.allocated

    def max_memory_allocated(self) -> int:
        """As ``torch.accelerator.max_memory_allocated``."""
        return self.peak

    def max_memory_reserved(self) -> int:
        """As ``torch.accelerator.max_memory_reserved``."""
        return self.reserved_peak

    def reset_peak_memory_stats(self) -> None:
        """As ``torch.accelerator.reset_peak_memory_stats``."""
        self.peak, self.reserved_peak = self.allocated, self.reserved

    def synchronize(self) -> None:
        """As ``torch.accelerator.synchronize``."""
        self.calls.append("synchronize")


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    """``torch.accelerator`` with a stand-in allocator."""
    double = Allocator()
    for name in (
        "memory_allocated",
        "max_memory_allocated",
        "max_memory_reserved",
        "reset_peak_memory_stats",
        "synchronize",
    ):
        assert hasattr(torch.accelerator, name), f"torch {torch.__version__} has no torch.accelerator.{name}"
        monkeypatch.setattr(torch.accelerator, name, getattr(double, name))
    return double


def test_the_accelerator_adapter_reads_the_allocator(allocator: Allocator) -> None:
    """Resident, peak and reserved of the steps alone: what came before start is in resident, not in the peak's rise."""
    meter = memory_meter(Platform("cuda", "nccl", 8))
    allocator.take(100 * KIB)
    allocator.take(-96 * KIB)
    with meter.watch():
        meter.start()
        allocator.take(3 * KIB)
        meter.mark("forward")
        allocator.take(5 * KIB)
        allocator.take(-8 * KIB)
        meter.mark("backward")
        samples = meter.stop()
    assert samples == MemorySamples(
        resident_bytes=4 * KIB,
        peak_bytes=12 * KIB,
        reserved_bytes=100 * KIB,
        phase_bytes={
            "after_forward": 7 * KIB,
            "peak_forward": 7 * KIB,
            "after_backward": 4 * KIB,
            "peak_backward": 12 * KIB,
        },
    )


def test_nothing_reserved_is_nothing(allocator: Allocator) -> None:
    """An allocator that holds no memory of the device is told as such."""
    meter = AcceleratorMemoryMeter(Platform("cuda", "nccl", 8))
    meter.start()
    assert meter.stop() == MemorySamples(resident_bytes=0, peak_bytes=0, reserved_bytes=0)


def test_the_accelerator_adapter_never_waits_inside_a_step(allocator: Allocator) -> None:
    """Start and stop wait for the device; a mark does not, or it would change the step it measures."""
    meter = AcceleratorMemoryMeter(Platform("cuda", "nccl", 8))
    meter.start()
    allocator.calls.clear()
    meter.mark("forward")
    assert allocator.calls == []
    meter.stop()
    assert allocator.calls == ["synchronize"]
