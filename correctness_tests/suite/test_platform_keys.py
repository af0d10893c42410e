"""A platform's key holds whatever may rightly change a figure, and nothing that may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.gate.baselines import BaselineFile, path_of
from fixtures.measurements import PlatformRecord
from fixtures.platforms import SETTINGS, Platform, link_kinds, settings_that_matter
from fixtures.report.results import parse_key

pytestmark = pytest.mark.cpu

NODE: dict[str, Any] = {
    "device_type": "cuda",
    "backend": "nccl",
    "world_size": 8,
    "machine": "nvidia-h200",
    "memory_gib": 140,
    "links": "nv18",
    "settings": {"NCCL_ALGO": "Ring"},
}
TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity
\x1b[4mGPU0\x1b[0m\t X \tNV18\tSYS\tPXB\t0-47\t0
GPU1\tNV18\t X \tPHB\tNODE\t0-47\t0
GPU2\tSYS\tPHB\t X \tSYS\t48-95\t1
NIC0\tPXB\tNODE\tSYS\t X
"""


def test_key_reads_like_the_machine() -> None:
    """Model, memory and links stand in the key, settings as a hash of what was set."""
    assert PlatformRecord(**NODE).key == "cuda-nccl-8--nvidia-h200-140gib-nv18--set-b509e4c6"
    assert PlatformRecord(**{**NODE, "settings": {}}).key == "cuda-nccl-8--nvidia-h200-140gib-nv18"
    assert Platform.cpu(4).key == "cpu-gloo-4"


@pytest.mark.parametrize(
    "change",
    [
        {"world_size": 4},
        {"machine": "nvidia-h100"},
        {"memory_gib": 80},
        {"links": "sys"},
        {"backend": "gloo"},
        {"settings": {"NCCL_ALGO": "Tree"}},
        {"settings": {"NCCL_ALGO": "Ring", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}},
        {"settings": {}},
    ],
    ids=str,
)
def test_whatever_may_change_a_figure_changes_the_key(change: dict[str, Any]) -> None:
    """Each part of a platform on its own makes another platform, whose key is a file name."""
    key = PlatformRecord(**{**NODE, **change}).key
    assert key != PlatformRecord(**NODE).key
    assert path_of(Path("x"), key).name == f"{key}.json"


def test_key_can_be_typed() -> None:
    """The key of any machine, settings included, can be given as ``--platform`` and means the same file."""
    key = PlatformRecord(**NODE).key
    assert parse_key(key).key == key


def test_links_are_read_from_the_topology() -> None:
    """The kinds of link between the GPUs that are used, without those to network cards."""
    assert (link_kinds(TOPOLOGY, 3), link_kinds(TOPOLOGY, 2)) == ("nv18-phb-sys", "nv18")


def test_settings_are_those_that_move_figures() -> None:
    """The allocator's configuration under any of its names and NCCL's variables; logging and others are left out."""
    found = settings_that_matter(
        {"NCCL_ALGO": "Ring", "NCCL_DEBUG": "INFO", "PATH": "/bin", "PYTORCH_CUDA_ALLOC_CONF": "b:2, a:1"}
    )
    assert found == {"NCCL_ALGO": "Ring", "PYTORCH_ALLOC_CONF": "a:1,b:2"}


@pytest.mark.parametrize("name", ["NCCL_P2P_DISABLE", *SETTINGS])
def test_each_setting_makes_another_platform(name: str) -> None:
    """Each variable that changes the result changes the key, so that such a night meets no baseline of another."""
    found = settings_that_matter({name: "1"})
    assert found == {name: "1"}
    assert PlatformRecord(**{**NODE, "settings": found}).key != PlatformRecord(**{**NODE, "settings": {}}).key


@pytest.mark.parametrize(("tail", "covered"), [("-server-96gib-pix", True), ("-server-96gib--set-b509e4c6", False)])
def test_family_speaks_for_default_settings_only(tail: str, covered: bool) -> None:
    """A file for a kind of machine judges it as it comes, not with an allocator or NCCL told otherwise."""
    family = PlatformRecord(device_type="cuda", backend="nccl", world_size=8, machine="card")
    file = BaselineFile(platform=family, match="prefix", entries={})
    assert file.covers(family.key + tail) is covered
