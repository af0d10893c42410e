"""The matrix of faults reads a session rightly: caught, missed, by another test or arm, crashed, a false alarm."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from correctness_tests.suite.faults import Caught
from correctness_tests.suite.faults.__main__ import main, try_whole
from correctness_tests.suite.planting import Fault, fault_names, find_test, load_fault
from correctness_tests.suite.whole_runs import matrix, session
from correctness_tests.suite.whole_runs.judge import Result, judge_clean, judge_cpu, judge_rehearsal
from correctness_tests.suite.whole_runs.matrix import Kept, Matrix
from correctness_tests.suite.whole_runs.session import CPU, REHEARSAL, Failed, Session, arguments
from correctness_tests.suite.whole_runs.table import summed, table_of, totals, wrong

pytestmark = pytest.mark.cpu

TEST = "perf_tests/test_a.py::test_bytes"
CASE = "test_m.py::test_ratio[fsdp2:ddp]"
SEEN = Fault("gathered_twice", TEST, Caught(r"fsdp2 .*\+8", rehearsal={CASE: r"moved +ddp unchanged, fsdp2 \+"}))
UNSEEN = Fault("wrong_numbers", TEST, Caught(r"off", unseen="numbers alone"))
RED = Failed(f"{TEST}[2]", "resident, fsdp2 of mlp:\n+8")
OTHER = Failed("correctness_tests/test_b.py::test_x", "no")
IN_REHEARSAL = Failed(f"perf_tests/{CASE}", "REGRESSED\n  moved  ddp unchanged, fsdp2 +9%")

CPU_SESSIONS = [
    (Session(1, (OTHER, RED)), Result.CAUGHT),
    (Session(0), Result.MISSED),
    (Session(1, (OTHER,)), Result.WRONG_TEST),
    (Session(1, (Failed("correctness_tests/test_a.py::test_bytes", RED.text),)), Result.WRONG_TEST),
    (Session(1, ()), Result.WRONG_TEST),
    (Session(1, (Failed(TEST, "resident, ddp of mlp: +8"),)), Result.WRONG_ARM),
    (Session(1, (Failed(TEST, RED.text, checked=False),)), Result.CRASHED),
    (Session(1, (Failed(TEST, "KeyError", checked=False), RED)), Result.CAUGHT),
    (Session(None, (RED,)), Result.CRASHED),
    (Session(3, (RED,)), Result.CRASHED),
    (Session(2, (RED,)), Result.CRASHED),
    (Session(4), Result.CRASHED),
]
REHEARSALS = [
    (SEEN, Session(1, (IN_REHEARSAL, OTHER)), Result.CAUGHT),
    (SEEN, Session(0), Result.MISSED),
    (SEEN, Session(1, (OTHER,)), Result.WRONG_TEST),
    (SEEN, Session(1, (Failed(IN_REHEARSAL.test, "moved  ddp +9%, fsdp2 unchanged"),)), Result.WRONG_ARM),
    (SEEN, Session(1, (Failed(IN_REHEARSAL.test, IN_REHEARSAL.text, checked=False),)), Result.CRASHED),
    (SEEN, Session(None), Result.CRASHED),
    (UNSEEN, Session(0), Result.UNSEEN),
    (UNSEEN, Session(1, (OTHER,)), Result.UNDECLARED),
    (UNSEEN, Session(1), Result.UNDECLARED),
    (UNSEEN, Session(5), Result.CRASHED),
]


@pytest.mark.parametrize(("session", "result"), CPU_SESSIONS)
def test_a_cpu_session_counts_with_the_right_test_and_message_alone(session: Session, result: Result) -> None:
    """Red is not enough: the named test, by a check of its own, with the declared message."""
    assert judge_cpu(SEEN, session).result is result


@pytest.mark.parametrize(("fault", "session", "result"), REHEARSALS)
def test_a_rehearsal_is_held_to_what_its_fault_declares(fault: Fault, session: Session, result: Result) -> None:
    """Each declared case is red and names its arm; a fault that declares none must leave it green."""
    assert judge_rehearsal(fault, session).result is result


@pytest.mark.parametrize(
    ("session", "result"),
    [(Session(0), Result.PASSED), (Session(1, (OTHER,)), Result.FALSE_ALARM), (Session(None), Result.CRASHED)],
)
def test_a_clean_session_is_green_or_a_false_alarm(session: Session, result: Result) -> None:
    """With nothing planted every red is a false alarm."""
    assert judge_clean(session).result is result


def test_only_what_is_as_it_must_be_is_good() -> None:
    """Three results are; one more would let the command end with status 0 on a fault that was not caught."""
    assert {result for result in Result if result.good} == {Result.CAUGHT, Result.UNSEEN, Result.PASSED}


def sessions_of(kind: str, fault: Fault | None, options: Sequence[str]) -> Session:
    """A double of ``run_session``: every fault is caught but for the one that is not seen."""
    if fault is None or fault is UNSEEN:
        return Session(0, seconds=3)
    return Session(1, (RED, OTHER) if kind == CPU else (IN_REHEARSAL,), seconds=2)


def test_the_table_says_what_came_of_each(tmp_path: Path) -> None:
    """A row a fault, what failed beside the named test, and a paragraph for what is not as it must be."""
    rows = list(Matrix([SEEN, UNSEEN], clean=1).rows(Kept(), sessions_of))
    table = table_of(rows)
    assert [line.split("  ")[0] for line in table.splitlines()[2:]] == [SEEN.name, UNSEEN.name, "no fault, run 1"]
    assert "caught      caught      test_a.py::test_bytes[2], test_b.py; test_m.py::test_ratio[fsdp2:ddp]" in table
    assert wrong(rows) == [f"wrong_numbers, cpu: missed. the session is green; {TEST} was to fail"]
    assert totals(rows) == "2 caught, 1 unseen, 1 missed, 2 passed"
    assert summed(["a.py::x", "a.py::y[1]", "b.py::z"]) == "a.py (2), b.py"


def test_a_stopped_matrix_goes_on_where_it_was(tmp_path: Path) -> None:
    """What was kept is judged again, by what the faults declare now, and not run again."""
    path = tmp_path / "results" / "sessions.jsonl"
    first = list(Matrix([SEEN]).rows(Kept.load(path), sessions_of))

    def never(*_: object) -> Session:
        raise AssertionError("run again")

    assert list(Matrix([SEEN]).rows(Kept.load(path), never)) == first
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2


@pytest.mark.parametrize(("missed", "status"), [(True, 1), (False, 0)])
def test_the_command_ends_with_1_when_a_fault_is_missed(
    missed: bool, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with 0 when all are caught, or unseen as declared."""
    monkeypatch.setattr(matrix.Matrix.rows, "__defaults__", (sessions_of,))
    options = argparse.Namespace(clean=1, only_kind=None, full=True, everything=False, keep=None)
    assert try_whole([SEEN, UNSEEN] if missed else [SEEN], options) == status
    assert ("1 missed" in capsys.readouterr().out) is missed


def test_clean_runs_alone_can_be_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """``--only`` without a name plants nothing: the runs without a fault are all there is."""
    monkeypatch.setattr(matrix.Matrix.rows, "__defaults__", (sessions_of,))
    assert main(["--only", "--clean", "2", "--only-kind", "cpu"]) == 0
    lines = [" ".join(line.split()[:6]) for line in capsys.readouterr().out.partition("\n\n")[0].splitlines()]
    assert [line.partition(" cpu")[0] for line in lines] == ["no fault, run 1", "no fault, run 2"]


def test_nothing_to_run_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A schedule whose number of clean runs has become nought must not pass."""
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "--clean", "0"])
    assert "no fault and no clean session is left to run" in capsys.readouterr().err


def test_a_session_is_what_a_user_runs(tmp_path: Path) -> None:
    """The two commands of the README, the fault planted with ``--rank-patch``; the named test is the cpu tier's."""
    cpu, rehearsal = (arguments(kind, SEEN, tmp_path) for kind in (CPU, REHEARSAL))
    assert cpu[:4] == ["correctness_tests", "perf_tests", "-m", "cpu"]
    assert rehearsal[:4] == ["perf_tests", "-m", "gpu", "--rehearse"]
    patch = "correctness_tests.suite.faults.gathered_twice:apply"
    assert all(command[command.index("--rank-patch") + 1] == patch for command in (cpu, rehearsal))
    assert cpu[cpu.index("--named") + 1] == TEST
    assert not {"--named", "-k", "--maxfail", "-x", "--no-bandwidth"} & set(rehearsal)
    assert "--rank-patch" not in arguments(CPU, None, tmp_path)


def test_a_session_that_hangs_is_killed_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a crash, and never a green or a red session."""
    monkeypatch.setattr(session, "LIMIT_S", 0.0)
    assert judge_clean(session.run_session(CPU, None)).result is Result.CRASHED


@pytest.mark.parametrize("name", fault_names())
def test_declared_cases_exist(name: str) -> None:
    """A case of a rehearsal that a fault declares is a test of perf_tests, and its message names an arm or the knob."""
    for case, message in load_fault(name).caught.rehearsal.items():
        assert callable(find_test(f"perf_tests/{case.partition('[')[0]}"))
        assert any(word in message for word in ("ddp", "fsdp", "single", "reshard"))
