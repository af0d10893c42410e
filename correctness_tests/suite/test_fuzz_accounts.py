"""What the fuzzing command says of itself: CPU time bounds an input and a run, and nothing that it found is lost."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from correctness_tests.suite.fuzz import __main__ as command
from correctness_tests.suite.fuzz.engine import TooSlow, bounded
from correctness_tests.suite.fuzz.trees import ODD, mutated

pytestmark = pytest.mark.cpu


def test_an_input_that_takes_too_long_is_ended() -> None:
    """A loop that uses the CPU is ended, also where its loader catches every exception; sleep costs nothing."""
    with bounded(0.05):
        time.sleep(0.2)
    with pytest.raises(TooSlow, match=r"more than 0\.05 CPU seconds"):
        _stubborn()
    sum(range(10**6))  # and the limit is gone behind the block


def _stubborn() -> None:
    with bounded(0.05):
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue


def test_minutes_of_several_runs_add_up(tmp_path: Path) -> None:
    """Each run is noted beside the corpus; the last line has its own figures and all runs' sums."""
    counts, runs = tmp_path / "counts.json", tmp_path / "launch.runs"
    counts.write_text(json.dumps({"cpu_minutes": 1.5, "inputs": 1000}))
    command.account("launch", counts, runs, {"coverage": 10, "features": 20})
    line = command.account("launch", counts, runs, {"coverage": 11, "features": 22})
    assert line == (
        "fuzz: launch: 1.50 CPU minutes, 1,000 inputs, 11 branches, 22 features; in all 3.00 CPU minutes, 2,000 inputs "
        "in 2 runs"
    )
    assert command.account("launch", tmp_path / "none", runs, {}) == "fuzz: launch: ended before the first input"


def test_what_ends_the_fuzzer_itself_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input at which libFuzzer ended (no end, no memory, a signal) goes to the findings, once."""
    findings = tmp_path / "findings"
    findings.mkdir()
    monkeypatch.setattr(command, "FINDINGS", findings)
    for name in ("timeout-0123", "oom-4567", "seed-0"):
        (tmp_path / name).write_text(name)
    assert command.keep_artifacts("launch", tmp_path) == 2
    assert command.keep_artifacts("launch", tmp_path) == 2
    assert sorted(path.name for path in findings.iterdir()) == ["launch-oom-4567", "launch-timeout-0123"]


def test_coverage_is_read_from_what_libfuzzer_prints() -> None:
    """The last line that says how many branches and features were reached."""
    line = (
        "#70631\tREDUCE cov: 174 ft: 441 corp: 65/101Kb lim: 20000 exec/s: 307 rss: 110Mb L: 1017/12607 MS: 2 Custom-"
    )
    found = command.PROGRESS.search(line)
    assert found is not None
    assert found.groupdict() == {"coverage": "174", "features": "441"}


def test_one_edit_leaves_no_trace_in_the_next() -> None:
    """Ten thousand edits of one tree are drawn from the same odd values as the first."""
    draw, before = random.Random(1), repr(ODD)
    for _ in range(10_000):
        mutated(b'{"a": [1, {"b": []}], "c": {}}', draw)
    assert repr(ODD) == before
