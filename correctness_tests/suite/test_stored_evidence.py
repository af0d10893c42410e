"""Property: what further launches have shown of a breach is told again wherever the results of that run are judged."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from correctness_tests.suite.judging import NIGHT, Judge, judge, slipped
from correctness_tests.suite.synthetic import accepted
from fixtures.gate.comparisons import Comparison, compare
from fixtures.report.evidence_lines import LONGEST, MAX_LINES, NAME, load_evidence, save_evidence, shown_of
from fixtures.report.judged import save_judged
from fixtures.report.results import save_results
from fixtures.report.stored import stored_run
from fixtures.report.summary import main
from fixtures.session.evidence import Evidence
from fixtures.session.kept import Kept

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

BREACH = slipped("fsdp2", resident=1.3)
CASE = "gpt2-rehearsal/fsdp2:ddp/resident"
GREW = "fsdp2's resident grew by 1.65 MiB: gathered units of blocks.0, blocks.1 +1.65 MiB"


def judged() -> list[Comparison]:
    """The comparisons of a night with a breach."""
    return compare(BREACH.measurements(), accepted(NIGHT), gate_times=True)


def keep(results: Path) -> None:
    """Leave what a session with that breach does: launches, verdicts, and what a launch more has shown."""
    save_results(results, BREACH.measurements())
    save_judged(results, judged(), None)
    save_evidence(results, judged(), {CASE: [GREW]})


def test_a_session_keeps_what_it_was_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of a breach are written beside the results of the session that has just judged it."""
    monkeypatch.setattr(Evidence, "gather", lambda self, *given: self.lines.update({CASE: [GREW]}))
    options = SimpleNamespace(from_results=(), update=None, dry_run=False, baselines=tmp_path)
    given = {"options": options, "proposal": None, "measurements": ["a launch"], "say": None}
    job: Any = SimpleNamespace(**given, kept=Kept(results=tmp_path))
    Evidence().follow(job, lambda: SimpleNamespace(), judged())  # type: ignore[arg-type,return-value]
    assert shown_of(judged(), load_evidence(tmp_path)) == {CASE: [GREW]}


def test_judged_again_the_message_has_it(judge: Judge) -> None:
    """``--from-results`` launches nothing, and its message of the case says what had grown."""
    keep(judge.results)
    result = judge.judge("-k", "fsdp2:ddp and resident")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"evidence {GREW}" in " ".join(result.stdout.str().split())


def test_a_summary_and_a_page_have_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made from stored results alone, both tell the line and not only which files explain it."""
    keep(tmp_path)
    assert main([str(tmp_path)]) == 0
    assert f"- {GREW}\n" in html.unescape(capsys.readouterr().out)
    (tmp_path / "accepted").mkdir()
    assert stored_run([tmp_path], tmp_path / "accepted").evidence == {CASE: [GREW]}


def test_another_run_in_the_folder_has_none_of_it(judge: Judge) -> None:
    """Launches of another night took the place of those that were explained: their breach is not explained by it."""
    keep(judge.results)
    save_results(judge.results, replace(BREACH, date="2026-06-01T00:00:00+00:00").measurements())
    result = judge.judge("-k", "fsdp2:ddp and resident")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "evidence " not in result.stdout.str()


def test_a_run_without_a_breach_leaves_no_lines(tmp_path: Path) -> None:
    """What an earlier run in the folder left is gone."""
    keep(tmp_path)
    save_evidence(tmp_path, judged(), {})
    assert not (tmp_path / NAME).exists()
    assert load_evidence(tmp_path) == {}


def test_lines_without_end_are_cut(tmp_path: Path) -> None:
    """What is written can be read."""
    save_evidence(tmp_path, judged(), {CASE: ["x" * (LONGEST + 1)] * (MAX_LINES + 1)})
    assert shown_of(judged(), load_evidence(tmp_path)) == {CASE: ["x" * LONGEST] * MAX_LINES}


@pytest.mark.parametrize("text", ["{", '{"a": {"date": "x", "lines": "y"}}', "[]"])
def test_a_broken_file_costs_no_verdict(judge: Judge, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A night that passes ends in one complaint with file and remedy; a summary says that it goes without."""
    save_results(judge.results, replace(NIGHT, seed=1).measurements())
    (judge.results / NAME).parent.mkdir()
    (judge.results / NAME).write_text(text)
    result = judge.judge("-k", "fsdp2:ddp and resident")
    assert (result.ret, result.parseoutcomes().get("failed", 0)) == (pytest.ExitCode.TESTS_FAILED, 0)
    result.stdout.fnmatch_lines(["ERROR: evidence not read: stored/judged/evidence.json: *Remove it (the verdicts *"])
    save_judged(judge.results, judged(), None)
    capsys.readouterr()
    assert main([str(judge.results)]) == 0
    assert "evidence not read: " in html.unescape(capsys.readouterr().out)
