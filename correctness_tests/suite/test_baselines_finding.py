"""A platform finds its own baseline, else the nearest that speaks for its kind, and opens no other platform's."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from correctness_tests.suite.synthetic import accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import entries_of_others, find_baseline, load_baseline, render
from fixtures.measurements import PlatformRecord

pytestmark = pytest.mark.cpu

FILE = accepted()
NODE = PlatformRecord(device_type="cuda", backend="nccl", world_size=8, machine="nvidia-h100")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a good baseline lies."""
    path = tmp_path / "cpu-gloo-4.json"
    path.write_text(render(FILE))
    return path


def store(folder: Path, machine: str, match: Literal["exact", "prefix"]) -> Path:
    """A node's baseline."""
    platform = NODE.model_copy(update={"machine": machine})
    path = folder / f"{platform.key}.json"
    path.write_text(render(FILE.model_copy(update={"platform": platform, "match": match})))
    return path


def test_platform_finds_its_own_file(path: Path) -> None:
    """A platform's key names its file; another key finds nothing."""
    assert find_baseline(path.parent, "cpu-gloo-4") == load_baseline(path)
    assert find_baseline(path.parent, "cpu-gloo-8") is None


@pytest.mark.parametrize("target", ["gone.json", "cpu-gloo-4.json"])
def test_a_link_to_nothing_is_a_broken_baseline(path: Path, target: str) -> None:
    """A link whose file is gone, or that leads to itself, was a baseline once: none is not the same."""
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(UsageError, match=r"cpu-gloo-4\.json: (there is no such file|can't be read)"):
        find_baseline(path.parent, "cpu-gloo-4")


@pytest.mark.parametrize(
    ("match", "machine", "covered"),
    [
        ("exact", "nvidia-h100", True),
        ("exact", "nvidia-h100-pcie", False),
        ("prefix", "nvidia-h100-pcie", True),
        ("prefix", "nvidia-h1000", False),
    ],
)
def test_file_speaks_for_its_machine_only(
    tmp_path: Path, match: Literal["exact", "prefix"], machine: str, covered: bool
) -> None:
    """A file judges its own machine; one that says "prefix" also those whose name goes on after a dash."""
    file = load_baseline(store(tmp_path, "nvidia-h100", match))
    key = NODE.model_copy(update={"machine": machine}).key
    assert (file.covers(key), find_baseline(tmp_path, key) is not None) == (covered, covered)


def test_nearest_kind_speaks_for_a_machine(tmp_path: Path) -> None:
    """Of two files that speak for its kind, the one whose name has more in common with it; its own before both."""
    for machine in ("nvidia-h100", "nvidia", "nvidia-h100-pcie"):
        store(tmp_path, machine, "prefix")
    keys = [f"cuda-nccl-8--nvidia-{card}" for card in ("h100-pcie", "h100-sxm", "h200")]
    found = [file.platform.machine for file in (find_baseline(tmp_path, key) for key in keys) if file]
    assert found == ["nvidia-h100-pcie", "nvidia-h100", "nvidia"]


@pytest.mark.parametrize("broken", ["cuda-nccl-8--nvidia-h200", "cuda-nccl-8", "cpu-gloo-4"])
def test_broken_file_disturbs_no_other_platform(tmp_path: Path, broken: str) -> None:
    """A broken baseline of another platform is never opened, be it of another machine or of none."""
    (tmp_path / f"{broken}.json").write_text("{")
    assert find_baseline(tmp_path, NODE.key) is None
    store(tmp_path, "nvidia-h100", "exact")
    assert find_baseline(tmp_path, NODE.key) is not None


@pytest.mark.parametrize("key", ["../cpu-gloo-4", "a/b", "", ".hidden", "x" * 300])
def test_key_that_is_no_file_name_is_refused(path: Path, key: str) -> None:
    """A platform from an untrusted file can't reach outside the folder."""
    with pytest.raises(UsageError, match="can't name a baseline file"):
        find_baseline(path.parent, key)


def test_entries_of_other_workloads_are_counted() -> None:
    """Each with its number, in order of their names; those of this session, and of no file at all, are none."""
    entries = {case_id: entry for case_id, entry in FILE.entries.items() if case_id.endswith(("/peak", "/resident"))}
    ours = list(entries.items())
    more = {**entries, **{f"mine/{case_id.partition('/')[2]}": entry for case_id, entry in ours[:2]}}
    more.update({f"also/{case_id.partition('/')[2]}": entry for case_id, entry in ours[:1]})
    file = FILE.model_copy(update={"entries": more})
    assert entries_of_others(file, ["gpt2-rehearsal"]) == ["1 entry of also", "2 entries of mine"]
    assert entries_of_others(file, ["also", "mine"]) == [f"{len(ours)} entries of gpt2-rehearsal"]
    assert entries_of_others(None, ["mine"]) == []
