"""Property: what lies beside launches, broken or not to be written, costs no verdict and never passes silently."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from correctness_tests.suite.judging import NIGHT, Judge, judge, slipped
from correctness_tests.suite.synthetic import Job, accepted
from fixtures.gate.comparisons import compare
from fixtures.report.__main__ import main
from fixtures.report.bandwidth import PATH
from fixtures.report.judged import load_verdicts
from fixtures.report.results import save_results
from fixtures.report.steps import NAME
from fixtures.session.kept import Kept

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

BROKEN = {PATH: '{"source": "measured", "rows": [', NAME: '[{"strategy": 3}]'}


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of a page's seconds, and are not what these tests are about."""
    for module in ("gallery", "__main__"):
        monkeypatch.setattr(f"fixtures.report.{module}.pictures", lambda *run, **options: [])


def break_all(folder: Path) -> None:
    """Leave a broken file of each kind beside the launches."""
    for name, text in BROKEN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_verdicts_are_given_beside_a_broken_table(judge: Judge) -> None:
    """Every check passes, and one line with file and remedy makes the exit status 1; no page was asked for, so the
    timelines are nobody's business."""
    save_results(judge.results, replace(NIGHT, seed=1).measurements())
    break_all(judge.results)
    result = judge.judge("--results", "kept")
    assert (result.ret, result.parseoutcomes().get("failed", 0)) == (pytest.ExitCode.TESTS_FAILED, 0)
    assert sum(line.endswith("PASS") for line in result.outlines) == 6
    (line,) = [line for line in result.outlines if line.startswith("ERROR: ")]
    assert line.startswith("ERROR: bandwidth table not read: stored/machine/bandwidth.json: line 1 column ")
    assert line.endswith("Remove it (the verdicts do not need it), or measure again.")
    assert {c.judgement.verdict for c in load_verdicts(judge.pytester.path / "kept")} == {"PASS"}


def test_a_page_is_written_beside_broken_timelines(judge: Judge) -> None:
    """The page that was asked for has the verdicts, and says what it goes without."""
    save_results(judge.results, slipped("fsdp2", peak=1.3).measurements())
    break_all(judge.results)
    result = judge.judge("--report", "page.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: timelines not read: stored/judged/timelines.json: *Remove it*"])
    text = (judge.pytester.path / "page.html").read_text()
    assert "1 regressed, 1 improved only because an arm got worse, 2 complaints about the session" in text
    assert "timelines not read: stored/judged/timelines.json" in text


def test_the_command_draws_without_them(judge: Judge, capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m fixtures.report`` writes the page all the same, names both files and ends with 1."""
    save_results(judge.results, replace(NIGHT, seed=1).measurements())
    break_all(judge.results)
    page = judge.pytester.path / "page.html"
    assert main([str(judge.results), "--baselines", str(judge.baselines), "--report", str(page)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(str(judge.results))[0] for line in said] == [
        "ERROR: bandwidth table not read: ",
        "ERROR: timelines not read: ",
    ]
    assert "Bad: 2 complaints about the session" in page.read_text()


def test_verdicts_are_kept_whatever_was_not(tmp_path: Path) -> None:
    """A table that could not be measured, or launches that could not be written, take no verdict along."""
    kept = Kept()
    kept.keep_bandwidth("rank 1 died")
    judged = compare(Job().measurements(), accepted(), gate_times=True)
    kept.keep_verdicts(tmp_path, judged, None)
    assert kept.unsaved == ["bandwidth not measured: rank 1 died"]
    assert len(json.loads((tmp_path / "judged" / "verdicts.json").read_text())) == len(judged)
