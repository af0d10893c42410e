"""Property: the JUnit file of a session has a failing case for all that fails it, tests or not."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from correctness_tests.suite.judging import INTERRUPTED, NIGHT, STALE_BUDGET, Judge, judge, slipped
from fixtures.errors import UsageError
from fixtures.report.bandwidth import PATH
from fixtures.report.results import save_results

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture


def failures(judge: Judge) -> dict[str, str]:
    """The failing cases of the file, by class and name, with what they say; their number is the file's own count."""
    suite = ET.parse(judge.pytester.path / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    found = {}
    for case in suite.iter("testcase"):
        if (failure := case.find("failure")) is not None:
            found[f"{case.get('classname')}::{case.get('name')}"] = failure.text or ""
    assert int(suite.get("failures", "0")) == len(found)
    return found


def test_complaints_are_failing_cases(judge: Judge) -> None:
    """A broken table, an update's refusal in budgets: every check passes, and the file says what failed the session."""
    (judge.results / PATH).parent.mkdir(parents=True)
    (judge.results / PATH).write_text("{")
    judge.pytester.makeconftest(STALE_BUDGET)
    result = judge.run(replace(NIGHT, seed=1), "--junitxml", "junit.xml")
    assert (result.ret, result.parseoutcomes().get("failed", 0)) == (pytest.ExitCode.TESTS_FAILED, 0)
    found = failures(judge)
    assert set(found) == {"shardgate.session::bandwidth table not read", "shardgate.session::stale"}
    assert found["shardgate.session::stale"] == "stale: no test has this budget"
    assert "Remove it (the verdicts do not need it)" in found["shardgate.session::bandwidth table not read"]


def test_a_session_that_ended_early_is_a_failing_case(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test failed, and not all of them ran; beside a page's writer, too."""
    monkeypatch.setattr("fixtures.report.gallery.pictures", lambda *run, **options: [])  # they take seconds
    judge.pytester.makeconftest(INTERRUPTED)
    judge.run(NIGHT, "--junitxml", "junit.xml", "--report", "page.html")
    (said,) = failures(judge).values()
    assert said == "the session ended with exit status 7, and not all of it may have run"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--launches", "2"), "--from-results launches nothing, so --launches has no meaning"),
        (
            ("--update-baselines", "--reason", "x", "--accept", "mlp/a:b/peak"),
            "no selected check is about mlp/a:b/peak",
        ),
        (("nowhere",), "file or directory not found: nowhere"),
    ],
    ids=["an option", "a name", "a path"],
)
def test_a_refused_session_is_a_failing_case(judge: Judge, arguments: tuple[str, ...], said: str) -> None:
    """Exit status 4, for options, for what the selected checks are, or of pytest's own: the file has the sentence."""
    save_results(judge.results, NIGHT.measurements())
    result = judge.judge("--junitxml", "junit.xml", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (case,) = failures(judge).values()
    assert said in case


def test_a_file_that_can_not_be_written_hides_no_refusal(judge: Judge) -> None:
    """Options are refused with their sentence and exit status, with a word on the file, and no internal error."""
    result = judge.judge("--junitxml", "/proc/nowhere/junit.xml", "--launches", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (said,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert "so --launches has no meaning" in said
    assert "--junitxml /proc/nowhere/junit.xml can't be written: No such file or directory" in said


def test_what_is_found_while_judging_is_told_too(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A usage error that a check comes upon ends the session with its sentence, in the file as on the terminal."""

    def refuse(*of: object, **options: object) -> None:
        raise UsageError("a reason that can't be stored")

    monkeypatch.setattr("fixtures.session.job.propose", refuse)
    result = judge.run(NIGHT, "--update-baselines", "--reason", "x", "--junitxml", "junit.xml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "a reason that can't be stored" in failures(judge).values()


def test_workers_that_refuse_are_told(judge: Judge) -> None:
    """Under xdist the controller's file has what its workers refused, once."""
    save_results(judge.results, NIGHT.measurements())
    update = ("--update-baselines", "--reason", "x", "--accept", "mlp/a:b/peak")
    result = judge.judge("--junitxml", "junit.xml", "-n", "1", *update)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [case.partition(":")[0] for case in failures(judge).values()] == ["no selected check is about mlp/a"]


def test_a_failing_check_is_told_once(judge: Judge) -> None:
    """Where tests alone fail, nothing is added to them; a good night has no failing case."""
    judge.run(slipped("fsdp2", peak=1.3), "--junitxml", "junit.xml")
    assert not [name for name in failures(judge) if name.startswith("shardgate.session")]
    assert judge.run(replace(NIGHT, seed=1), "--junitxml", "junit.xml").ret == pytest.ExitCode.OK
    assert failures(judge) == {}
