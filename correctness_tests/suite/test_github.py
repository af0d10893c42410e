"""What GitHub Actions is told of a session: a summary where a file is named, annotations where they are read."""

from __future__ import annotations

import html
import os
from dataclasses import replace
from pathlib import Path

import pytest

from correctness_tests.suite.judging import FAILING_BESIDE, NIGHT, ROOT, STALE_BUDGET, Judge, judge, slipped
from correctness_tests.suite.synthetic import accepted
from fixtures.gate.comparisons import compare
from fixtures.session.github import Failure, GitHub

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

COMPARED = compare(NIGHT.measurements(), accepted(NIGHT), gate_times=True)
ACTIONS = GitHub.of({"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/home/x/repo"})


@pytest.fixture
def actions(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A judge in a step of GitHub Actions."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(ROOT))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(judge.pytester.path / "summary.md"))
    return judge


def test_a_failing_check_is_annotated_at_its_line(actions: Judge) -> None:
    """The annotation has the check's file in the repository, its failing line, its name, and the whole message."""
    result = actions.run(slipped("fsdp2", step=1.14))
    (line,) = [line for line in result.outlines if line.startswith("::error ") and "REGRESSED" in line]
    source = (ROOT / "perf_tests" / "test_step_times.py").read_text().splitlines()
    at = source.index("    job.check(pair, metric)") + 1
    assert line.startswith(f"::error file=perf_tests/test_step_times.py,line={at},title=test_step_time_ratio[")
    assert "::REGRESSED gpt2-rehearsal/fsdp2:ddp/step on cuda-nccl-8--test-gpu%0A  measured    ratio " in line
    assert line.endswith('--reason "..."')


def test_the_summary_is_appended(actions: Judge) -> None:
    """The file keeps what other steps wrote, then the run's table and messages, with this session's own command."""
    path = actions.pytester.path / "summary.md"
    path.write_text("before\n")
    actions.run(slipped("fsdp2", step=1.14))
    text = path.read_text()
    assert text.startswith("before\n### Shardgate: 2 of 6 cases failed\n")
    assert "--from-results stored" in text


def test_a_complaint_is_annotated(actions: Judge) -> None:
    """What fails a session whose every check passed has an annotation too, without a place."""
    (actions.pytester.path / "history.sqlite").write_text("no history\n")
    result = actions.run(replace(NIGHT, seed=1), "--history", "history.sqlite")
    assert [line for line in result.outlines if line.startswith("::error title=Shardgate::history not kept: ")]
    assert "1 complaint" in (actions.pytester.path / "summary.md").read_text()


def test_the_summary_has_what_failed_outside_the_job(actions: Judge) -> None:
    """A plain test that failed, with its message, and a complaint of the budgets, beside six cases that passed."""
    actions.pytester.makepyfile(test_more=FAILING_BESIDE)
    actions.pytester.makeconftest(STALE_BUDGET)
    actions.run(replace(NIGHT, seed=1), "-m", "cpu or gpu")
    text = html.unescape((actions.pytester.path / "summary.md").read_text())
    assert text.startswith("### Shardgate: 6 cases passed, 1 other check failed, 1 complaints\n")
    assert "failed <code>test_more.py::test_plain</code>" in text
    assert "the moon" in text
    assert "stale: no test has this budget" in text


def test_nothing_is_told_elsewhere(judge: Judge) -> None:
    """Without GitHub's variables there is no annotation and no file."""
    result = judge.run(slipped("fsdp2", step=1.14))
    assert not [line for line in result.outlines if line.startswith("::")]
    assert not list(judge.pytester.path.glob("*.md"))


def test_a_passing_session_has_no_annotation(actions: Judge) -> None:
    """Green: a summary, and nothing at any line."""
    result = actions.run(replace(NIGHT, seed=1))
    assert not [line for line in result.outlines if line.startswith("::")]
    assert "### Shardgate: 6 cases passed" in (actions.pytester.path / "summary.md").read_text()


def test_a_summary_that_can_not_be_written_costs_no_verdict(actions: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and the session is as good as its checks."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/proc/none/summary.md")
    result = actions.run(replace(NIGHT, seed=1))
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["job summary not written: /proc/none/summary.md: No such file or directory"])


@pytest.mark.parametrize("there", [0, 1000, 1024**2 - 4000, 1024**2 - 500, 1024**2 + 5])
def test_the_file_stays_within_githubs_limit(tmp_path: Path, there: int) -> None:
    """Whatever the step has written so far, GitHub's 1 MiB is not passed by us, and a full file is left as it is."""
    path = tmp_path / "summary.md"
    path.write_bytes(b"x" * there)
    said = GitHub(path, False, tmp_path).summarize(COMPARED * 100, ("pytest",), ["a complaint"] * 1000, ["a note"] * 9)
    assert path.stat().st_size <= max(there, 1024**2)
    assert ("is full" in said) == (path.stat().st_size == there) == (there > 1024**2 - 1024)


def test_signs_of_a_command_are_escaped() -> None:
    """Percent, newline, colon and comma in a title or a message can't end or extend the command."""
    failure = Failure(Path("/home/x/repo/a,b/test_%.py"), 7, "t[a:b,c]::error", "100%\r\n::error::x")
    (line,) = ACTIONS.annotations([failure])
    assert line == ("::error file=a%2Cb/test_%25.py,line=7,title=t[a%3Ab%2Cc]%3A%3Aerror::100%25%0D%0A::error::x")


@pytest.mark.parametrize(("failures", "lines"), [(0, 0), (1, 1), (10, 10), (11, 10), (300, 10)])
def test_ten_annotations_at_most(failures: int, lines: int) -> None:
    """GitHub shows ten: of more failures, nine and one that counts the rest."""
    made = ACTIONS.annotations([Failure(Path("t.py"), n + 1, "t", "m" * 9000) for n in range(failures)])
    assert len(made) == lines
    assert max(map(len, made), default=0) < 5000
    if failures > 10:
        assert made[-1] == f"::error title=Shardgate::{failures - 9} more failures: see the log of this step"


def test_annotations_are_on_by_one_variable_alone() -> None:
    """Only where GITHUB_ACTIONS is true are lines read as commands."""
    failure = Failure(Path("t.py"), 1, "t", "m")
    for environment in ({}, {"GITHUB_ACTIONS": "false"}, {"CI": "true"}):
        assert GitHub.of(environment).annotations([failure]) == []
    assert os.environ.get("GITHUB_ACTIONS") is None  # of the suite's own tests


def test_tox_passes_what_github_says() -> None:
    """A session in an environment of tox sees the variables that it is told by."""
    passed = (ROOT / "tox.ini").read_text().split("pass_env =")[1].split("set_env")[0].split()
    assert {"GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"} <= set(passed)
