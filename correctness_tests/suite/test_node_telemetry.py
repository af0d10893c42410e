"""Property: where each rank reads its own device, as under torchrun, a bad night is INVALID as it is elsewhere."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from correctness_tests.suite.judging import NIGHT, Judge, judge
from correctness_tests.suite.night_doubles import FakeNvml, ScriptedDevices
from fixtures.gate.night import joined
from fixtures.measurements import DeviceReading, Telemetry
from fixtures.meters.telemetry import NightWatch, watch_of_rank
from fixtures.platforms import Platform
from fixtures.report.parts import part_path
from fixtures.report.results import save_measurement

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

THROTTLED = {5: ["hardware thermal slowdown"]}


def seen_by(rank: int, devices: ScriptedDevices) -> Telemetry:
    """What one rank sees of its own device while it measures."""
    watch = NightWatch(devices, [rank])
    with watch.launch([os.getpid()]):
        pass
    telemetry = watch.take()
    assert telemetry is not None
    return telemetry


def test_a_rank_looks_at_its_own_device_alone() -> None:
    """Rank 5 reads device 5; it is no stranger there itself, and whoever else is there is one."""
    running = {5: {os.getpid(): "python", 666: "miner"}, 6: {667: "miner"}}
    telemetry = seen_by(5, ScriptedDevices(reasons={**THROTTLED, 6: ["power brake"]}, running=running))
    (device,) = telemetry.devices
    assert (device.rank, device.throttled, device.foreign) == (5, THROTTLED[5], ["process 666 (miner)"])
    assert telemetry.unread == []


def test_nvml_is_asked_for_the_ranks_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 13, the sixth of the second node: its uuid's handle is read, and an Xid there is rank 13's."""
    library = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr("fixtures.meters.telemetry._uuids", lambda platform, ranks: {r: f"GPU-a{r % 8}" for r in ranks})
    watch = watch_of_rank(Platform("cuda", "nccl", 16), 13)
    library.events = [SimpleNamespace(device="GPU-a5", eventData=79), SimpleNamespace(device="GPU-a4", eventData=79)]
    with watch.launch([os.getpid()]):
        pass
    telemetry = watch.take()
    assert telemetry is not None
    assert [(d.rank, d.name, d.xids) for d in telemetry.devices] == [(13, "NVIDIA GPU-a5", [79])]


def test_a_night_of_parts_with_a_throttled_rank_is_invalid(judge: Judge) -> None:
    """One rank of the second node was throttled in one launch: INVALID, with the rank, the reason and the launch."""
    for m in replace(NIGHT, seed=1, launches=3).measurements():
        for rank in m.ranks:
            devices = ScriptedDevices(
                reasons=THROTTLED if m.order == 4 else {}, running={rank.rank: {os.getpid(): "p"}}
            )
            part = m.model_copy(update={"ranks": [rank], "telemetry": seen_by(rank.rank, devices)})
            save_measurement(part_path(judge.results, m.strategy, m.order, rank.rank), part)
    result = judge.judge()
    text = " ".join(result.stdout.str().split())
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INVALID gpt2-rehearsal/fsdp2:ddp/step" in text
    assert "rank 5's Double was throttled: hardware thermal slowdown (launch 1 of fsdp2)" in text
    assert "devices: read through a double, in 9 launches" in text


def reading(rank: int, name: str = "H100", unread: str = "") -> Telemetry:
    """One rank's own reading."""
    return Telemetry(source="NVML", devices=[DeviceReading(rank=rank, name=name)], unread=[unread] if unread else [])


def test_readings_of_ranks_are_joined() -> None:
    """All devices by rank, what nobody could read once, and how many ranks did not look; None where none did."""
    made = joined([reading(1, unread="ECC errors: no"), None, reading(0, unread="ECC errors: no")])
    assert made is not None
    assert [device.rank for device in made.devices] == [0, 1]
    assert (made.source, made.unread) == ("NVML", ["ECC errors: no", "the devices of 1 of 3 ranks"])
    assert joined([None, None]) is None
