"""Property: the stack has NVIDIA's driver where NVML tells it, and none elsewhere."""

from __future__ import annotations

import sys

import pytest
import torch

from correctness_tests.suite.night_doubles import FakeNvml
from fixtures.platforms import current_stack

pytestmark = pytest.mark.cpu


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that says it has NVIDIA's devices, and a double of NVML on it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 28, 3))
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    return monkeypatch


def test_nvml_tells_the_driver(nvidia: pytest.MonkeyPatch) -> None:
    """It is a part of what a header and a baseline say of the stack."""
    assert (current_stack().driver, current_stack().nccl) == ("580.65", "2.28.3")
    assert str(current_stack()).endswith("nccl 2.28.3, driver 580.65")


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlSystemGetDriverVersion"])
def test_nvml_that_refuses_costs_nothing(nvidia: pytest.MonkeyPatch, call: str) -> None:
    """A driver that does not answer is not known."""
    nvidia.setitem(sys.modules, "pynvml", FakeNvml(call))
    assert current_stack().driver is None


def test_without_the_package_it_is_not_known(nvidia: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed."""
    nvidia.setitem(sys.modules, "pynvml", None)
    assert current_stack().driver is None


def test_other_vendors_and_cpus_have_none(nvidia: pytest.MonkeyPatch) -> None:
    """ROCm calls itself CUDA, and NVML speaks of NVIDIA's devices only; on a CPU nobody is asked."""
    nvidia.setattr(torch.version, "hip", "6.4")
    assert current_stack().driver is None
    nvidia.setattr(torch.version, "hip", None)
    nvidia.setattr(torch.cuda, "is_available", lambda: False)
    assert (current_stack().driver, current_stack().nccl) == (None, None)
