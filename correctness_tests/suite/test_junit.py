"""Property: the JUnit file of a session has a failing case for all that fails it, tests or not."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from correctness_tests.suite.judging import INTERRUPTED, NIGHT, STALE_BUDGET, Judge, judge, slipped
from fixtures.report.bandwidth import PATH

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


def test_a_failing_check_is_told_once(judge: Judge) -> None:
    """Where tests alone fail, nothing is added to them; a good night has no failing case."""
    judge.run(slipped("fsdp2", peak=1.3), "--junitxml", "junit.xml")
    assert not [name for name in failures(judge) if name.startswith("shardgate.session")]
    assert judge.run(replace(NIGHT, seed=1), "--junitxml", "junit.xml").ret == pytest.ExitCode.OK
    assert failures(judge) == {}
