"""What became of a fault in a whole session: a red one counts only with the right test, message and arm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from correctness_tests.suite.planting import Fault
from correctness_tests.suite.whole_runs.session import Failed, Session

OK, TESTS_FAILED = 0, 1
"""pytest's exit statuses of a session that judged its tests."""


class Result(StrEnum):
    """What came of one session.

    Under a fault: ``caught``; ``unseen``, green as declared; ``missed``, green where it must be red; ``wrong test``,
    red by others alone; ``wrong arm``, the right test with a message that names something else; ``undeclared``, red
    where the fault declares that nothing is seen; ``crashed``, no verdict. Without one: ``passed``, ``false alarm``.
    """

    CAUGHT = "caught"
    UNSEEN = "unseen"
    MISSED = "missed"
    WRONG_TEST = "wrong test"
    WRONG_ARM = "wrong arm"
    UNDECLARED = "undeclared"
    CRASHED = "crashed"
    PASSED = "passed"
    FALSE_ALARM = "false alarm"

    @property
    def good(self) -> bool:
        """Whether it is as it must be."""
        return self in (Result.CAUGHT, Result.UNSEEN, Result.PASSED)


@dataclass(frozen=True)
class Judged:
    """What came of a session: the result, what there is to say of it, and the other tests that failed."""

    result: Result
    text: str = ""
    others: tuple[str, ...] = ()


def judge_cpu(fault: Fault, session: Session) -> Judged:
    """The cpu tier is red, the test that the fault names failed by a check of its own, with the declared message."""
    if (crash := _crash(session)) is not None:
        return crash
    named = [one for one in session.failed if one.test.partition("[")[0] == fault.test]
    others = tuple(one.case for one in session.failed if one not in named)
    if session.status == OK:
        return Judged(Result.MISSED, f"the session is green; {fault.test} was to fail")
    if not named:
        return Judged(Result.WRONG_TEST, f"red, but {fault.test} did not fail", others)
    return _by_message(named, fault.caught.message, others)


def judge_rehearsal(fault: Fault, session: Session) -> Judged:
    """A rehearsal is red in every declared case, with its message; or green, as declared."""
    if (crash := _crash(session)) is not None:
        return crash
    declared = fault.caught.rehearsal
    failed = {one.case: one for one in session.failed}
    others = tuple(case for case in failed if case not in declared)
    if not declared:
        if session.status == OK:
            return Judged(Result.UNSEEN, fault.caught.unseen)
        return Judged(Result.UNDECLARED, _first(session), others)
    if missed := [case for case in declared if case not in failed]:
        result = Result.MISSED if session.status == OK else Result.WRONG_TEST
        return Judged(result, f"not red: {', '.join(missed)}", others)
    wrong = [judged for case in declared if not (judged := _by_message([failed[case]], declared[case], ())).result.good]
    return (
        Judged(wrong[0].result, wrong[0].text, others) if wrong else Judged(Result.CAUGHT, ", ".join(declared), others)
    )


def judge_clean(session: Session) -> Judged:
    """With nothing planted a session is green."""
    if (crash := _crash(session)) is not None:
        return crash
    if session.status == OK:
        return Judged(Result.PASSED)
    return Judged(Result.FALSE_ALARM, _first(session), tuple(one.case for one in session.failed))


def _by_message(failed: list[Failed], message: str, others: tuple[str, ...]) -> Judged:
    """Caught if a check failed with the message; a test that broke instead is a crash."""
    for one in failed:
        if one.checked and re.search(message, one.text, re.DOTALL):
            return Judged(Result.CAUGHT, one.case, others)
    checked = [one for one in failed if one.checked]
    said = (checked or failed)[0]
    result = Result.WRONG_ARM if checked else Result.CRASHED
    return Judged(result, f"{said.case} was to say {message!r}, said: {said.text}", others)


def _crash(session: Session) -> Judged | None:
    """A session that did not end by judging its tests."""
    if session.status in (OK, TESTS_FAILED):
        return None
    how = "was killed at its limit" if session.status is None else f"ended with exit status {session.status}"
    return Judged(Result.CRASHED, f"the session {how}: {session.tail}", tuple(one.case for one in session.failed))


def _first(session: Session) -> str:
    if not session.failed:
        return f"red without a failing test: {session.tail}"
    return f"{session.failed[0].case}: {session.failed[0].text}"
