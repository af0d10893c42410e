"""Property: who reads which devices: NVML those of the platform's ranks by uuid, torch any other's name and memory."""

from __future__ import annotations

import os
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

from correctness_tests.suite.night_doubles import FakeNvml, ScriptedDevices
from fixtures.measurements import Telemetry
from fixtures.meters.nvml import Identity
from fixtures.meters.telemetry import HIDDEN, NightWatch, alloc_retries, devices_of, watch_for, watch_of_rank
from fixtures.platforms import Platform

pytestmark = pytest.mark.cpu

GPUS, XPUS, CPU = Platform("cuda", "nccl", 3), Platform("xpu", "xccl", 3), Platform.cpu(3)


def properties(device: torch.device) -> SimpleNamespace:
    """Of device i: uuid a<i>, i + 1 GiB."""
    return SimpleNamespace(name=f"Device {device}", uuid=f"a{device.index}", total_memory=(device.index + 1) * 1024**3)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """NVML, and a machine of 4 devices as torch tells them."""
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr("fixtures.platforms.accelerator_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(
        torch, "get_device_module", lambda kind: {"xpu": SimpleNamespace(get_device_properties=properties)}[kind]
    )
    return fake


def taken(watch: NightWatch) -> Telemetry:
    """What the watch has seen; there are devices."""
    telemetry = watch.take()
    assert telemetry is not None
    return telemetry


def test_nvml_is_asked_for_every_rank() -> None:
    """Of a platform of three processes; by the uuid that torch tells, with NVML's prefix."""
    watch = watch_for(GPUS)
    assert [(d.rank, d.name) for d in taken(watch).devices] == [(r, f"NVIDIA GPU-a{r}") for r in range(3)]


def test_a_rank_of_another_node_has_the_device_of_its_place(library: FakeNvml) -> None:
    """Rank 6 of nodes with 4 devices each: the third, and NVML is asked for no other."""
    watch = watch_of_rank(Platform("cuda", "nccl", 8), 6)
    assert [(d.rank, d.name) for d in taken(watch).devices] == [(6, "NVIDIA GPU-a2")]
    assert library.registered == ["GPU-a2"]


def test_the_library_may_be_given() -> None:
    """Instead of the installed one."""
    given = FakeNvml()
    given.bits = 0x80
    assert devices_of(GPUS, given).throttled(0) == ["power brake"]


@pytest.mark.parametrize("refuses", [None, "nvmlInit"])
def test_torch_tells_name_and_memory(monkeypatch: pytest.MonkeyPatch, refuses: str | None) -> None:
    """Of another vendor's devices, and of NVIDIA's where NVML does not answer; the rest is unknown."""
    platform = GPUS if refuses else XPUS
    monkeypatch.setattr(torch, "get_device_module", lambda kind: {platform.device_type: torch.cuda}[kind])
    devices = devices_of(platform, FakeNvml(refuses or ""))
    assert devices.source == "torch"
    assert devices.identity(2) == Identity(f"Device {platform.device_type}:2", 3 * 1024**3)
    assert (devices.throttled(2), devices.ecc_errors(2), devices.processes(2), devices.xids()) == ([], None, {}, [])


def test_rocm_has_no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its devices are called cuda too."""
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert devices_of(GPUS, FakeNvml()).source == "torch"


@pytest.mark.parametrize("watch", [lambda: watch_for(CPU), lambda: watch_of_rank(CPU, 1)], ids=["all", "a rank's"])
def test_a_cpu_has_nothing_to_watch(monkeypatch: pytest.MonkeyPatch, watch: object) -> None:
    """NVML is not even asked, however many looks."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert callable(watch)
    made = watch()
    with made.launch([1]):
        made.look()
    assert (made.peek(), made.take()) == (None, None)


def test_a_reading_has_what_must_be_alike() -> None:
    """Name, memory and power limit, as the device tells them."""
    (reading,) = taken(NightWatch(ScriptedDevices(), [5])).devices
    assert (reading.rank, reading.name, reading.memory_bytes, reading.power_limit_w) == (5, "Double", 10 * 1024**3, 300)


def test_errors_are_counted_from_what_was_known_before() -> None:
    """A device that counted none until now has none that are known; one that stops counting, those read last."""
    devices = ScriptedDevices(ecc={0: 7, 1: None})  # type: ignore[dict-item]
    watch = NightWatch(devices, 2)
    devices.ecc = {0: 9, 1: 7}
    watch.look()
    devices.ecc = {0: None, 1: 7}  # type: ignore[dict-item]
    watch.look()
    assert [device.ecc_errors for device in taken(watch).devices] == [2, None]


def test_hidden_processes_are_said_beside_what_else_is_unread() -> None:
    """Unless what is unread is the processes themselves."""
    for unread, told in (
        (["ECC errors: no"], ["ECC errors: no", HIDDEN]),
        (["processes of others: no"], ["processes of others: no"]),
        (["processes of others: no", "ECC errors: no"], ["processes of others: no", "ECC errors: no"]),
    ):
        assert taken(NightWatch(ScriptedDevices(unread=unread), 1)).unread == told


def test_the_watch_is_a_daemon_that_ends_with_the_launch() -> None:
    """A session that is killed does not wait for it; it has a name in a dump of stacks."""

    def watching() -> list[bool]:
        return [thread.daemon for thread in threading.enumerate() if thread.name == "night-watch"]

    with NightWatch(ScriptedDevices(), 1).launch([os.getpid()]):
        assert watching() == [True]
    assert watching() == []


@pytest.mark.parametrize(
    ("counts", "retries"),
    [
        ({"num_alloc_retries": 3, "num_ooms": 4, "num_device_alloc": 9}, 7),
        ({"num_alloc_retries": 3}, 3),
        ({"num_ooms": 4}, 4),
        ({}, 0),
    ],
)
def test_retries_of_the_allocator_are_counted(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], retries: int
) -> None:
    """Those after which it went on and those after which it gave up; none where torch counts none."""
    monkeypatch.setattr(torch.accelerator, "memory_stats", lambda: counts)
    assert alloc_retries(GPUS) == retries
    assert alloc_retries(CPU) is None
