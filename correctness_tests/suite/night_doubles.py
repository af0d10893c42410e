"""Doubles of what reads devices: ``telemetry.Devices`` with a script, and the part of pynvml that the suite calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from fixtures.meters.nvml import Identity


@dataclass
class ScriptedDevices:
    """Devices that show what the test put into its fields; ``looks`` counts how often each was asked for its clocks."""

    reasons: dict[int, list[str]] = field(default_factory=dict)
    ecc: dict[int, int] = field(default_factory=dict)
    running: dict[int, dict[int, str]] = field(default_factory=dict)
    errors: list[tuple[int, int]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    looks: Counter[int] = field(default_factory=Counter)
    source: str = "a double"

    def identity(self, rank: int) -> Identity:
        """A device of its own name, or all alike."""
        return Identity(self.names.get(rank, "Double"), 10 * 1024**3, 300.0)

    def throttled(self, rank: int) -> list[str]:
        """As scripted."""
        self.looks[rank] += 1
        return self.reasons.get(rank, [])

    def ecc_errors(self, rank: int) -> int | None:
        """As scripted, 0 by default."""
        return self.ecc.get(rank, 0)

    def processes(self, rank: int) -> dict[int, str]:
        """As scripted."""
        return dict(self.running.get(rank, {}))

    def xids(self) -> list[tuple[int, int]]:
        """Each error once."""
        found, self.errors = self.errors, []
        return found


class NvmlError(Exception):
    """Stands for pynvml.NVMLError."""


class FakeNvml:
    """The calls of pynvml that ``fixtures/meters/nvml.py`` makes; ``refuses`` names those that raise.

    A device's uuid is its handle; its last digit i makes its index 10 + i, its memory (80 + i) GiB and its power limit
    (700 + i) W. ``asked`` counts what was asked of which device.
    """

    NVMLError = NvmlError
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self, *refuses: str) -> None:
        self.refuses = refuses
        self.bits = 0
        self.events: list[SimpleNamespace] = []
        self.process = "/usr/bin/py\x1b[31mthon"
        self.registered: list[str] = []
        self.asked: Counter[tuple[str, str]] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "refuses"):

            def refuse(*_: object) -> None:
                raise NvmlError("Not Supported")

            return refuse
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None:  # noqa: D102, N802
        pass

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: D102, N802
        return "580.65"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: D102, N802
        return uuid

    def nvmlDeviceGetIndex(self, handle: str) -> int:  # noqa: D102, N802
        return 10 + int(handle[-1])

    def nvmlDeviceGetName(self, handle: str) -> str:  # noqa: D102, N802
        return f"NVIDIA {handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: D102, N802
        return SimpleNamespace(total=(80 + int(handle[-1])) * 1024**3)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:  # noqa: D102, N802
        return 700_000 + 1000 * int(handle[-1])

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:  # noqa: D102, N802
        self.asked["clocks", handle] += 1
        return self.bits

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:  # noqa: D102, N802
        self.asked["clocks by the older name", handle] += 1
        return self.bits

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> int:  # noqa: D102, N802
        self.asked["ECC", handle] += 1
        return 5 if (kind, counter) == (1, 0) else -1

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:  # noqa: D102, N802
        self.asked["processes", handle] += 1
        return [SimpleNamespace(pid=4711)]

    def nvmlSystemGetProcessName(self, pid: int) -> str:  # noqa: D102, N802
        assert pid == 4711
        return self.process

    def nvmlEventSetCreate(self) -> str:  # noqa: D102, N802
        return "events"

    def nvmlDeviceRegisterEvents(self, handle: str, kinds: int, events: str) -> None:  # noqa: D102, N802
        assert (kinds, events) == (8, "events")
        self.registered.append(handle)

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> SimpleNamespace:  # noqa: D102, N802
        assert (events, timeout_ms) == ("events", 0)
        if not self.events:
            raise NvmlError("Timeout")
        return self.events.pop(0)
