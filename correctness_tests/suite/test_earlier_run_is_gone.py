"""A folder of results holds one run: of an earlier one in it nothing is shown beside the new launches."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from correctness_tests.suite.synthetic import Job
from fixtures.report.beside import OURS, Beside
from fixtures.report.traces import trace_links
from fixtures.session.kept import Kept

pytestmark = pytest.mark.cpu

EARLIER = [
    "machine/bandwidth.json",
    "judged/verdicts.json",
    "judged/timelines.json",
    "judged/evidence.json",
    "judged/cuda-nccl-8--h100.json",
    "traces/fsdp2.trace.json.gz",
    "evidence/ddp.held.json",
    "evidence/ddp.trace.json.gz",
    "evidence/ddp.snapshot.pickle",
    "failed/fsdp2-rank-3.json",
]
"""One of each that the suite writes."""


def leave(folder: Path, *names: str) -> None:
    """Files that an earlier run, or somebody else, has left in a folder of results."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{")


def files(folder: Path) -> set[str]:
    """Names below the folder, but for the new run's own."""
    new = ("launch-", "results.csv", ".lock")
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and not p.name.startswith(new)}


def test_what_an_earlier_run_left_is_removed(tmp_path: Path) -> None:
    """Table, timelines, verdicts, evidence, traces and flight records go when other launches take their place."""
    leave(tmp_path, *EARLIER)
    assert {name.split("/")[0] for name in EARLIER} == set(OURS)
    keeper = Kept()
    keeper.keep_measurements(tmp_path, Job().measurements())
    assert (files(tmp_path), keeper.unsaved) == (set(), [])
    assert trace_links(tmp_path, tmp_path / "page.html") == []
    assert Beside.of([tmp_path]).faults == []


def test_what_the_suite_has_not_written_stays(tmp_path: Path) -> None:
    """A user's notes are nobody else's, wherever they lie, nor is what a link to a folder leads to."""
    notes = ["notes.txt", "judged/why.md", "traces/mine.json", "evidence/ddp.txt", "machine/nvidia-smi.txt"]
    leave(tmp_path / "results", *notes)
    leave(tmp_path / "elsewhere", "fsdp2-rank-3.json")
    (tmp_path / "results" / "failed").symlink_to(tmp_path / "elsewhere")
    Kept().keep_measurements(tmp_path / "results", Job().measurements())
    assert files(tmp_path / "results") >= set(notes)
    assert files(tmp_path / "elsewhere") == {"fsdp2-rank-3.json"}


def test_what_cant_be_removed_is_told(tmp_path: Path) -> None:
    """The launches are kept, and a line of the session's end, which fails it, names the file and the remedy."""
    (tmp_path / "traces" / "fsdp2.trace.json.gz").mkdir(parents=True)
    keeper = Kept()
    keeper.keep_measurements(tmp_path, Job().measurements())
    (line,) = keeper.unsaved
    assert line.startswith(f"{tmp_path}/traces/fsdp2.trace.json.gz is of an earlier run and can't be removed: ")
    assert line.endswith(". Remove it, and what lies beside it.")
    assert keeper.results == tmp_path


def test_a_folder_that_cant_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs no verdict: the launches are kept, and the line names the folder."""
    leave(tmp_path, "traces/fsdp2.trace.json.gz")
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "traces":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    keeper = Kept()
    keeper.keep_measurements(tmp_path, Job().measurements())
    (line,) = keeper.unsaved
    assert line.startswith(f"{tmp_path}/traces is of an earlier run and can't be removed: Permission denied. ")
    assert keeper.results == tmp_path
