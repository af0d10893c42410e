"""Property: devices are read through NVML, each of its own rank; what is refused is unknown, and said once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

import pytest

from correctness_tests.suite.night_doubles import FakeNvml, NvmlError
from fixtures.meters.nvml import THROTTLING, Identity, Nvml, NvmlMissingError

pytestmark = pytest.mark.cpu

PAIR = ["GPU-a0", "GPU-a1"]


def test_names_are_those_of_the_real_library() -> None:
    """The double has no call that nvidia-ml-py does not have; the bits are its own."""
    pynvml = pytest.importorskip("pynvml")
    calls = [name for name in vars(FakeNvml) if name.lower().startswith("nvml")]
    assert [name for name in calls if not hasattr(pynvml, name)] == []
    named = ("HwSlowdown", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown")
    assert list(THROTTLING) == [getattr(pynvml, f"nvmlClocksThrottleReason{name}") for name in named]
    assert pynvml.nvmlEventTypeXidCriticalError == FakeNvml.nvmlEventTypeXidCriticalError


@pytest.mark.parametrize(
    ("uuids", "rank", "identity"),
    [
        (PAIR, 0, Identity("NVIDIA GPU-a0", 80 * 1024**3, 700.0)),
        (PAIR, 1, Identity("NVIDIA GPU-a1", 81 * 1024**3, 701.0)),
        ({13: "GPU-a5"}, 13, Identity("NVIDIA GPU-a5", 85 * 1024**3, 705.0)),
    ],
)
def test_identity_is_the_ranks(uuids: Sequence[str] | Mapping[int, str], rank: int, identity: Identity) -> None:
    """The device with the uuid at the rank's place, or under its number; NVML says bytes and mW."""
    nvml = Nvml(uuids, FakeNvml())
    assert nvml.identity(rank) == identity
    assert (nvml.source, nvml.unread) == ("NVML, driver 580.65", [])


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x01 | 0x02 | 0x04 | 0x10 | 0x100, []),  # idle, clocks set, power cap, synchronized boost, display clocks
        (0x08, ["hardware slowdown"]),
        (0x20 | 0x01, ["software thermal slowdown"]),
        (0x40, ["hardware thermal slowdown"]),
        (0xFF, ["hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "power brake"]),
    ],
)
def test_reasons_of_throttling_are_bits(bits: int, reasons: list[str]) -> None:
    """Those that say something is wrong; of the device that was asked for, by its newer name."""
    library = FakeNvml()
    library.bits = bits
    assert Nvml(PAIR, library).throttled(1) == reasons
    assert library.asked == {("clocks", "GPU-a1"): 1}


def test_older_driver_knows_the_older_name() -> None:
    """Where the newer call of throttling is not there, the older one is asked."""
    library = FakeNvml("nvmlDeviceGetCurrentClocksEventReasons")
    library.bits = 0x40
    nvml = Nvml(PAIR, library)
    assert nvml.throttled(1) == ["hardware thermal slowdown"]
    assert library.asked == {("clocks by the older name", "GPU-a1"): 1}
    assert nvml.unread == []


def test_errors_are_the_uncorrected_ones_since_the_driver_was_loaded() -> None:
    """Volatile counts, of the device that was asked for."""
    library = FakeNvml()
    assert Nvml(PAIR, library).ecc_errors(1) == 5
    assert library.asked == {("ECC", "GPU-a1"): 1}


@pytest.mark.parametrize(
    ("process", "name"),
    [
        ("/usr/bin/py\x1b[31mthon", "py[31mthon"),
        ("python", "python"),
        ("/opt/caf\u00e9", "caf"),
        ("/usr/bin/" + 90 * "x", 80 * "x"),
        ("\u00e9", "name not known"),
    ],
)
def test_processes_are_named_by_their_file(process: str, name: str) -> None:
    """Without its folder, in at most 80 printable ASCII characters."""
    library = FakeNvml()
    library.process = process
    assert Nvml(PAIR, library).processes(1) == {4711: name}
    assert library.asked == {("processes", "GPU-a1"): 1}


def test_a_process_that_ended_has_no_name() -> None:
    """It is on the list all the same, and nothing is said to be unread."""
    nvml = Nvml(PAIR, FakeNvml("nvmlSystemGetProcessName"))
    assert nvml.processes(0) == {4711: "name not known"}
    assert nvml.unread == []


def test_xids_are_told_once_by_the_rank_of_their_device() -> None:
    """All that have arrived, in order; those of a device that is no rank's are passed over, not the last."""
    library = FakeNvml()
    nvml = Nvml({3: "GPU-a1", 0: "GPU-a0"}, library)
    assert library.registered == ["GPU-a1", "GPU-a0"]
    library.events = [
        SimpleNamespace(device=device, eventData=xid)
        for device, xid in (("GPU-a1", 79), ("GPU-x9", 1), ("GPU-a0", 94), ("GPU-a1", 31))
    ]
    assert nvml.xids() == [(3, 79), (0, 94), (3, 31)]
    assert nvml.xids() == []


REFUSED: dict[str, tuple[tuple[str, ...], Callable[[Nvml], object], object, list[str]]] = {
    "identity": (
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetName"),
        lambda nvml: nvml.identity(0),
        Identity("a device without a name"),
        ["memory: Not Supported", "power limits: Not Supported", "names: Not Supported"],
    ),
    "clocks": (
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        lambda nvml: nvml.throttled(0),
        [],
        ["throttled clocks: Not Supported"],
    ),
    "ECC": (
        ("nvmlDeviceGetTotalEccErrors",),
        lambda nvml: [nvml.ecc_errors(0), nvml.ecc_errors(1)],
        [None, None],
        ["ECC errors: Not Supported"],
    ),
    "processes": (
        ("nvmlDeviceGetComputeRunningProcesses",),
        lambda nvml: nvml.processes(0),
        {},
        ["processes of others: Not Supported"],
    ),
    "events": (("nvmlDeviceRegisterEvents",), lambda nvml: nvml.xids(), [], ["Xid errors: Not Supported"]),
}


@pytest.mark.parametrize("reading", REFUSED)
def test_what_is_refused_is_unknown_and_said_once(reading: str) -> None:
    """However many devices and looks: one line, and no figure in its place."""
    refuses, read, answer, unread = REFUSED[reading]
    library = FakeNvml(*refuses)
    library.events = [SimpleNamespace(device="GPU-a0", eventData=79)]
    nvml = Nvml(PAIR, library)
    assert [read(nvml), read(nvml)] == [answer, answer]
    assert nvml.unread == unread


def test_a_long_refusal_is_cut() -> None:
    """To a line of 200 characters."""
    library = FakeNvml()
    nvml = Nvml(PAIR, library)

    def refuse(*_: object) -> None:
        raise NvmlError(300 * "x")

    library.nvmlDeviceGetName = refuse  # type: ignore[method-assign, assignment]
    nvml.identity(0)
    assert nvml.unread == ["names: " + 193 * "x"]


def test_the_library_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-ml-py, the module pynvml, is imported when devices are asked for."""
    library = FakeNvml()
    library.bits = 0x80
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert Nvml(PAIR).throttled(0) == ["power brake"]


@pytest.mark.parametrize(
    ("refuses", "why"),
    [
        ("nvmlInit", "NVML does not answer: Not Supported"),
        ("nvmlDeviceGetHandleByUUID", "NVML does not answer: Not Supported"),
        ("", "nvidia-ml-py is not installed (pip install -e .[gpu])"),
    ],
    ids=["no driver", "no device", "no package"],
)
def test_without_nvml_the_reason_is_said(refuses: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to install it."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlMissingError) as caught:
        Nvml(PAIR, FakeNvml(refuses) if refuses else None)
    assert str(caught.value) == why
