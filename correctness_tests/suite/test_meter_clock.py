"""Property: the clock gives the time of each step, and on an accelerator never waits for the device between steps."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from fixtures.meters.clock import Clock
from fixtures.platforms import Platform

pytestmark = pytest.mark.cpu


def test_host_laps_are_the_differences_of_the_hosts_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laps in ms, one for each ``lap()``, in order."""
    ticks = iter([1_000_000, 3_500_000, 4_000_000])
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(ticks))
    clock = Clock(Platform.cpu(1))
    clock.start()
    clock.lap()
    clock.lap()
    assert clock.stop() == [2.5, 0.5]


def test_starting_again_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run holds its own laps alone."""
    ticks = iter([0, 1_000_000, 10_000_000, 12_000_000])
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(ticks))
    clock = Clock(Platform.cpu(1))
    clock.start()
    clock.lap()
    clock.start()
    clock.lap()
    assert clock.stop() == [2.0]


def test_a_clock_that_was_never_started_has_no_laps() -> None:
    """Stopping it is no error."""
    assert Clock(Platform.cpu(1)).stop() == []


class Device:
    """A stand-in for an accelerator that runs behind the host: events get their time when the device gets to them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.queue: list[tuple[str, Any]] = []
        self.now_ms = 0.0

    def work(self, ms: float) -> None:
        """Queue work; the host goes on at once."""
        self.queue.append(("work", ms))

    def synchronize(self) -> None:
        """As ``torch.accelerator.synchronize``: run the queue."""
        self.log.append("synchronize")
        for kind, value in self.queue:
            if kind == "work":
                self.now_ms += value
            else:
                value.at = self.now_ms
        self.queue.clear()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """``torch.accelerator.synchronize`` and ``torch.Event`` on a stand-in device."""
    double = Device()
    for name in ("record", "elapsed_time"):
        assert hasattr(torch.Event, name), f"torch {torch.__version__} has no torch.Event.{name}"

    class Event:
        def __init__(self, device: object = None, *, enable_timing: bool = False) -> None:
            assert enable_timing, "an event without timing has no elapsed_time"
            self.at: float | None = None

        def record(self) -> None:
            double.log.append("record")
            double.queue.append(("event", self))

        def elapsed_time(self, end: Event) -> float:
            assert self.at is not None
            assert end.at is not None, "elapsed_time of an event that the device has not reached raises"
            return end.at - self.at

    monkeypatch.setattr(torch.accelerator, "synchronize", double.synchronize)
    monkeypatch.setattr(torch, "Event", Event)
    return double


def test_device_laps_are_the_devices_own_time(device: Device) -> None:
    """Work queued before start is not in the first lap; each lap is the device's time, though the host ran ahead."""
    clock = Clock(Platform("cuda", "nccl", 8))
    device.work(100.0)
    clock.start()
    for ms in (7.0, 3.0):
        device.work(ms)
        clock.lap()
    assert clock.stop() == [7.0, 3.0]


def test_the_device_clock_never_waits_between_steps(device: Device) -> None:
    """One synchronize before the first step and one after the last: the host may run ahead in between."""
    clock = Clock(Platform("cuda", "nccl", 8))
    clock.start()
    clock.lap()
    clock.lap()
    clock.stop()
    assert device.log == ["synchronize", "record", "record", "record", "synchronize"]
