"""Devices are read before, while and after a launch runs; strangers told from ranks; what can't be read is said."""

from __future__ import annotations

import os
import threading
from typing import cast

import pytest
import torch

from correctness_tests.suite.night_doubles import FakeNvml, ScriptedDevices
from fixtures.gate.night import incidents
from fixtures.measurements import Telemetry
from fixtures.meters.clock import Clock
from fixtures.meters.collectives import CollectivesMeter
from fixtures.meters.controls import known_work_ms
from fixtures.meters.nvml import Nvml
from fixtures.meters.telemetry import HIDDEN, NightWatch, alloc_retries, devices_of, watch_for
from fixtures.platforms import Platform, playing_rank

pytestmark = pytest.mark.cpu

GPUS = Platform("cuda", "nccl", 2)


def taken(watch: NightWatch) -> Telemetry:
    """What the watch has seen; there are devices."""
    telemetry = watch.take()
    assert telemetry is not None
    return telemetry


def test_throttling_between_two_looks_of_a_launch_is_seen() -> None:
    """What is over when the launch ends was seen while it ran, and the launch after it is clean."""
    devices = ScriptedDevices()
    watch = NightWatch(devices, 2, look_s=0.001)
    with watch.launch([]):
        devices.reasons = {1: ["power brake"]}
        seen, looked = devices.looks[1], threading.Event()
        for _ in range(5000):
            if devices.looks[1] >= seen + 2:  # one whole look, at least, has begun since
                break
            looked.wait(0.001)
        devices.reasons = {}
    assert [device.throttled for device in taken(watch).devices] == [[], ["power brake"]]
    with watch.launch([]):
        pass
    assert incidents(taken(watch)) == []


def test_errors_count_since_the_launch_before() -> None:
    """ECC errors that were there before the job are nobody's; those of one launch are not the next one's."""
    devices = ScriptedDevices(ecc={0: 7})
    watch = NightWatch(devices, 2)
    devices.ecc, devices.errors = {0: 9}, [(1, 79)]
    with watch.launch([]):
        pass
    assert incidents(taken(watch)) == [
        "rank 0's Double had 2 uncorrected memory errors (ECC)",
        "rank 1's Double reported Xid 79",
    ]
    with watch.launch([]):
        pass
    assert incidents(taken(watch)) == []


def test_what_happened_in_a_failed_launch_goes_with_the_next() -> None:
    """A launch that dies is stored nowhere: its Xid is in the readings of the next one that lives."""
    devices = ScriptedDevices()
    watch = NightWatch(devices, 2)

    def die() -> None:
        with watch.launch([]):
            devices.errors = [(0, 94)]
            raise RuntimeError("the launch died")

    with pytest.raises(RuntimeError):
        die()
    assert incidents(watch.peek()) == ["rank 0's Double reported Xid 94"]
    with watch.launch([]):
        pass
    assert incidents(taken(watch)) == ["rank 0's Double reported Xid 94"]


def test_strangers_are_told_from_ranks() -> None:
    """The ranks, those of launches before, and the launching process are the job's own; anything else is not."""
    devices = ScriptedDevices(running={0: {os.getpid(): "pytest"}})
    watch = NightWatch(devices, 2)
    with watch.launch([101, 102]):
        devices.running = {0: {101: "rank"}, 1: {102: "rank"}}
        watch.look()
    assert incidents(taken(watch)) == []
    with watch.launch([103, 104]):
        devices.running = {0: {101: "rank", 103: "rank"}, 1: {104: "rank", 666: "miner"}}
    telemetry = taken(watch)
    assert [device.foreign for device in telemetry.devices] == [[], ["process 666 (miner)"]]
    assert telemetry.unread == []


@pytest.mark.parametrize("listed", [{}, {0: {9: "a rank under another number"}}], ids=["nothing", "other numbers"])
def test_processes_of_another_namespace_are_not_called_strangers(listed: dict[int, dict[int, str]]) -> None:
    """In a container NVML lists no process, or ranks under numbers of the host: that is said, and accuses nobody."""
    watch = NightWatch(ScriptedDevices(running=listed), 2)
    with watch.launch([101, 102]):
        pass
    telemetry = taken(watch)
    assert incidents(telemetry) == []
    assert telemetry.unread == [HIDDEN]


def test_what_nvml_refuses_is_said_once() -> None:
    """A device without ECC, a container without events: one line each, however many devices and looks."""
    library = FakeNvml(
        "nvmlDeviceGetTotalEccErrors", "nvmlDeviceRegisterEvents", "nvmlDeviceGetComputeRunningProcesses"
    )
    watch = NightWatch(Nvml(["GPU-a0", "GPU-a1"], library), 2)
    watch.look()
    telemetry = taken(watch)
    assert telemetry.unread == [
        "Xid errors: Not Supported",
        "ECC errors: Not Supported",
        "processes of others: Not Supported",
    ]
    assert [device.ecc_errors for device in telemetry.devices] == [None, None]


@pytest.mark.parametrize(
    ("library", "why"),
    [
        (FakeNvml("nvmlInit"), "NVML does not answer: Not Supported"),
        (None, "nvidia-ml-py is not installed (pip install -e .[gpu])"),
    ],
    ids=["no driver", "no package"],
)
def test_missing_nvml_is_said(library: FakeNvml | None, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without NVML torch's view stands in, and the reason and remedy are in its one line."""
    monkeypatch.setattr("fixtures.meters.telemetry._uuids", lambda platform, ranks: ["GPU-a0", "GPU-a1"])
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    devices = devices_of(GPUS, library)
    assert devices.source == "torch"
    assert devices.unread == [f"clocks, errors, power limits and processes of others: {why}"]


def test_other_vendors_are_said() -> None:
    """XPU: nothing asks NVML, and the line says what nobody looks at."""
    devices = devices_of(Platform("xpu", "xccl", 2), FakeNvml())
    assert devices.unread[0].startswith("clocks, errors, power limits and processes of others: NVML speaks of NVIDIA's")


def test_cpu_has_no_devices() -> None:
    """On the CPU nothing is read and nothing said; no allocator counts retries."""
    platform = Platform.cpu(2)
    watch = watch_for(platform)
    with watch.launch([1, 2]):
        pass
    assert watch.take() is None
    assert alloc_retries(platform) is None


class CountedLaps:
    """A clock whose laps read how many multiplications were asked for in them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.laps, self.multiply = 0, [0.0], torch.mm
        monkeypatch.setattr(torch, "mm", self._mm)

    def _mm(self, *args: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.multiply(*args, out=out)

    def start(self) -> None:
        """Forget what was counted while it warmed up."""
        self.calls, self.laps = 0, []

    def lap(self) -> None:
        """The calls of this lap."""
        self.laps.append(float(self.calls))
        self.calls = 0

    def stop(self) -> list[float]:
        """All laps."""
        return self.laps


def test_known_computation_is_the_ranks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine laps of the same work after the warm-up, and no collective: another rank can't make it slower."""
    clock, collectives = CountedLaps(monkeypatch), CollectivesMeter()
    with playing_rank(1, 2) as platform:
        collectives.start()
        assert known_work_ms(cast(Clock, clock), platform) == 2
        assert collectives.stop() == []
    assert clock.laps == [2.0] * 9
