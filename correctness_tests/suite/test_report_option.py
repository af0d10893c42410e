"""``--report`` writes the page whatever the night was, and never costs a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from correctness_tests.suite.judging import FAILING_BESIDE, INTERRUPTED, NIGHT, STALE_BUDGET, Judge, judge, slipped
from correctness_tests.suite.pages import step
from fixtures.report.__main__ import main
from fixtures.report.results import save_results
from fixtures.report.steps import NAME, save_steps

pytestmark = pytest.mark.cpu

__all__ = ["judge"]


def test_a_passing_night_has_a_page(judge: Judge) -> None:
    """The page is where it was asked for, the terminal says where, and the session passes."""
    result = judge.run(NIGHT, "--report", "night/page.html")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["report: night/page.html"])
    text = (judge.pytester.path / "night/page.html").read_text()
    assert "Good: all 6 gated comparisons hold" in text
    assert "--from-results stored" in text


def test_a_failing_night_has_a_page(judge: Judge) -> None:
    """The session fails as before, and the page says why: a verdict's message once, and what else failed."""
    judge.pytester.makepyfile(
        test_more="import pytest\n@pytest.mark.gpu\ndef test_more():\n    assert 'the sun' == 'the moon'"
    )
    result = judge.run(slipped("fsdp2", peak=1.3), "--report", "page.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = (judge.pytester.path / "page.html").read_text()
    assert "Bad: 1 regressed, 1 improved only because an arm got worse, 1 other check failed, of 6 gated" in text
    assert text.count("REGRESSED gpt2-rehearsal/fsdp2:ddp/peak") == 1
    assert "the moon" in text


def test_a_test_outside_the_job_makes_the_night_bad(judge: Judge) -> None:
    """Every comparison holds and a test of the other tier fails: the page says bad, and what that test said."""
    judge.pytester.makepyfile(test_more=FAILING_BESIDE)
    assert judge.run(NIGHT, "--report", "page.html", "-m", "cpu or gpu").ret == pytest.ExitCode.TESTS_FAILED
    text = (judge.pytester.path / "page.html").read_text()
    assert "Bad: 1 other check failed" in text
    assert "the moon" in text
    assert "Good" not in text


def test_a_complaint_of_the_budgets_makes_the_night_bad(judge: Judge) -> None:
    """What fails the session at the budgets' end is on the page."""
    judge.pytester.makeconftest(STALE_BUDGET)
    assert judge.run(NIGHT, "--report", "page.html").ret == pytest.ExitCode.TESTS_FAILED
    text = (judge.pytester.path / "page.html").read_text()
    assert "Bad: 1 complaint about the session" in text
    assert "stale: no test has this budget" in text


def test_a_session_that_ended_early_is_not_good(judge: Judge) -> None:
    """Nothing failed, and the exit status alone says that not everything ran."""
    judge.pytester.makeconftest(INTERRUPTED)
    assert judge.run(NIGHT, "--report", "page.html").ret == 7
    text = (judge.pytester.path / "page.html").read_text()
    assert "Bad: 1 complaint about the session" in text
    assert "the session ended with exit status 7" in text


def test_a_page_that_cannot_be_written_is_one_error(judge: Judge) -> None:
    """The verdicts and results stay; the session fails with the file and the reason."""
    (judge.pytester.path / "taken").write_text("a file")
    result = judge.run(NIGHT, "--report", "taken/page.html", "--results", "kept")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*PASS*", "ERROR: no report: taken/page.html*"])
    assert (judge.pytester.path / "kept/judged/verdicts.json").exists()


def test_a_conftest_below_is_no_obstacle(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of tests whose conftest has hooks too: pytest leaves it out elsewhere, and the page is written."""
    monkeypatch.setattr("fixtures.report.gallery.pictures", lambda *run, **options: [])  # they take seconds
    (judge.pytester.path / "below").mkdir()
    (judge.pytester.path / "below/conftest.py").write_text("def pytest_collectreport(report):\n    pass\n")
    (judge.pytester.path / "below/test_below.py").write_text(FAILING_BESIDE.replace("cpu", "gpu"))
    judge.run(NIGHT, "--report", "page.html")
    assert "the moon" in (judge.pytester.path / "page.html").read_text()


def test_a_folder_is_no_page(judge: Judge) -> None:
    """Found before anything is judged, with the remedy."""
    result = judge.run(NIGHT, "--report", "stored")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--report stored is a folder: name a file, for example --report stored/report.html."])


def test_without_a_name_it_lies_in_the_results(judge: Judge) -> None:
    """A bare ``--report`` needs a folder of results; with one, the page is report.html in it."""
    result = judge.run(NIGHT, "--report")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*stored results get none: name a FILE."])
    assert judge.judge("--report", "--results", "kept").ret == pytest.ExitCode.OK
    assert (judge.pytester.path / "kept/report.html").exists()


def test_no_job_no_page(judge: Judge) -> None:
    """Where no check of the job is selected there is nothing to show: said, and a failure."""
    result = judge.run(NIGHT, "--report", "page.html", "-k", "nothing_at_all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--report page.html is a page of the gpu tier's job*"])


def test_stored_results_become_a_page_and_pictures(judge: Judge, capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m fixtures.report`` judges, draws and names what it wrote; the page says what it did not check."""
    save_results(judge.results, slipped("fsdp2", peak=1.3).measurements())
    there = judge.pytester.path
    save_steps(there, [step("ddp", 2), step("fsdp2", 2)])
    stored = [str(judge.results), "--baselines", str(judge.baselines), "--timelines", str(there / NAME)]
    (judge.results / "traces").mkdir()
    (judge.results / "traces" / "rank 0.json").write_text("{}")
    assert main([*stored, "--report", str(there / "page.html"), "--out", str(there / "pictures")]) == 0
    written = capsys.readouterr().out.split()
    assert [Path(path).name for path in written] == ["memory.svg", "knob.svg", "timeline-simulated.svg", "page.html"]
    text = (there / "page.html").read_text()
    assert "Bad: 1 regressed, 1 improved only because an arm got worse, of 6 gated comparisons" in text
    assert "the comparisons alone were judged" in text
    assert '<a href="stored/traces/rank%200.json">' in text


def test_what_cannot_be_drawn_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty folder, and a file where a folder must be: exit status 2, one line with the path."""
    assert main([str(tmp_path), "--report", str(tmp_path / "page.html")]) == 2
    assert capsys.readouterr().err.startswith(f"ERROR: {tmp_path}: holds no launch")
