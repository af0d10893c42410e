"""Property: the job summary and the page say what further launches have shown: what grew, and which files show it."""

from __future__ import annotations

import html
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from correctness_tests.suite.judging import GPUS, NIGHT, slipped
from correctness_tests.suite.synthetic import accepted
from correctness_tests.suite.test_commands import options_of
from correctness_tests.suite.test_time_limit import job_of
from fixtures.gate.comparisons import compare
from fixtures.report.judged import save_judged
from fixtures.report.pages import Run, rows
from fixtures.report.summary import COMMENT_LIMIT, LEAST, main, markdown
from fixtures.report.terminal import JobSummary
from fixtures.session.github import GitHub

pytestmark = pytest.mark.cpu

BAD = compare(slipped("fsdp2", resident=1.3).measurements(), accepted(NIGHT), gate_times=True)
CASES = [c.case.id for c in BAD if c.fails]
GREW = "fsdp2's resident grew by 1.65 MiB: gathered units of blocks.0, blocks.1 +1.65 MiB"
NAMED = "<code>evidence/fsdp2.held.json</code>, <code>evidence/fsdp2.trace.json.gz</code>"
FILES = ["evidence/fsdp2.held.json", "evidence/fsdp2.trace.json.gz"]


def summary(results: Path) -> JobSummary:
    """Of a job whose breach was looked into."""
    job: Any = job_of(options_of(["--rehearse", "--history", "off", "--baselines", str(results / "none")]))
    job.platform = SimpleNamespace(key=GPUS.key)
    job.measurements, job.comparisons, job.kept.results = slipped("fsdp2", resident=1.3).measurements(), BAD, results
    job.evidence.lines = {CASES[0]: [GREW], CASES[1]: [GREW, "another"]}
    job.evidence.files = [results / name for name in FILES]
    made = JobSummary.of(job)
    assert made is not None
    return made


def test_the_job_summary_has_evidence_and_files(tmp_path: Path) -> None:
    """Each line once, before the folded messages, in which they stand too; files by their names in the results."""
    github = GitHub.of({"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")})
    reporter: Any = SimpleNamespace(stats={}, config=SimpleNamespace(rootpath=tmp_path), write_line=pytest.fail)
    github.tell(reporter, [summary(tmp_path)], [])
    text = html.unescape((tmp_path / "summary.md").read_text())
    head, _, messages = text.partition("<details>")
    assert [line for line in head.splitlines() if line.startswith("- ")] == [f"- {GREW}", "- another"]
    assert f"Files beside the results that explain it: {NAMED}\n" in head
    assert messages.count("  evidence    fsdp2's resident grew by 1.65 MiB") == 2


def test_evidence_is_text_within_the_limit() -> None:
    """Names in it end no cell, block or line, and what does not fit is counted."""
    text = markdown(BAD, limit=COMMENT_LIMIT, evidence={CASES[0]: ["<b>\n# x | [y](z)"]})
    (line,) = [line for line in text.partition("<details>")[0].splitlines() if line.startswith("- ")]
    assert "<b>" not in line
    assert "](z)" not in line
    many = {CASES[0]: [f"line {number} of many" for number in range(500)]}
    assert len(markdown(BAD, limit=4 * LEAST, evidence=many)) <= 4 * LEAST
    assert "lines of evidence left out" in markdown(BAD, limit=4 * LEAST, evidence=many)


def test_a_pages_message_has_the_evidence() -> None:
    """The complete message behind *why* is the one that the session printed."""
    run = Run(slipped("fsdp2", resident=1.3).measurements(), BAD, evidence={CASES[0]: [GREW]})
    said = [row.message for row in rows.verdict_rows(run) if row.message]
    assert sum("evidence    fsdp2's resident grew" in message for message in said) == 1
    assert len(said) == len(CASES)


def test_a_comment_names_the_files_of_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m fixtures.report.summary`` lists what lies in evidence/ and traces/."""
    save_judged(tmp_path, BAD, None)
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert main([str(tmp_path)]) == 0
    assert f"Files beside the results that explain it: {NAMED}\n" in html.unescape(capsys.readouterr().out)
