"""Property: options that no selected check can heed, or two would heed at once, are one error before anything runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from correctness_tests.suite.budget_sessions import UPDATE, Session, session
from correctness_tests.suite.judging import CHECKS, NIGHT, Judge, judge
from fixtures.errors import UsageError
from fixtures.report.results import save_results
from fixtures.session.refusals import WORKER_KEY, Refusals

pytestmark = pytest.mark.cpu

__all__ = ["judge", "session"]  # the fixtures


def refused(result: pytest.RunResult) -> str:
    """The one line of a session that was refused before a test ran."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    assert "failed" not in result.stdout.str()
    (line,) = [line for line in result.errlines if line.strip()]
    return line


def stored(session: Session) -> None:
    """Put launches beside the checks of budgets, and the checks that judge them."""
    save_results(session.pytester.path / "stored", NIGHT.measurements())
    session.pytester.makepyfile(test_night=CHECKS)


@pytest.mark.parametrize("update", [(), UPDATE], ids=["judged", "updated"])
def test_stored_launches_are_not_the_cpu_tiers(session: Session, update: tuple[str, ...]) -> None:
    """``-m cpu --from-results`` judged nothing of what it was given, and would even have updated the budgets."""
    stored(session)
    before = session.accept()
    line = refused(session.run("--from-results", "stored", *update))
    assert line == (
        "ERROR: --from-results stored holds launches of the gpu tier, and none of its checks is selected: select "
        "perf_tests -m gpu, or leave it out."
    )
    assert session.path.read_bytes() == before


def test_an_update_takes_what_was_given_or_what_is_read(session: Session) -> None:
    """Both tiers at once: the budgets would be read here and now, beside launches of another day."""
    stored(session)
    session.accept()
    line = refused(session.run("-m", "cpu or gpu", "--from-results", "stored", *UPDATE))
    assert line.startswith("ERROR: --from-results stored launches nothing, and --update-baselines would also store")


def test_one_device_is_not_the_cpu_tiers(session: Session) -> None:
    """``-m cpu --platform solo`` would read a part of the cpu tier's budgets, or none for want of a device."""
    before = session.accept()
    line = refused(session.run("--platform", "solo", "--rehearse"))
    assert line.startswith("ERROR: --platform solo is the gpu tier's: one device plays a rank.")
    assert session.path.read_bytes() == before


def test_a_bad_workload_is_said_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factory that raises is found before the first of its checks, and not by each of them."""
    tried: list[str] = []

    def broken(workload: str, rehearse: bool) -> str:
        tried.append(workload)
        raise UsageError(f"workload {workload!r}: its factory raised ValueError: no data")

    monkeypatch.setattr("fixtures.session.budgets.tried_reference", broken)
    line = refused(session.run("--workload", "my_models:factory"))
    assert line == "ERROR: workload 'my_models:factory': its factory raised ValueError: no data"
    assert tried == ["my_models:factory"]


AS_A_WORKER = """
def pytest_configure(config):
    config.workeroutput = {}
def pytest_unconfigure(config):
    print("told:", config.workeroutput.get("shardgate_refused"))
"""
"""A conftest of a session that takes itself for a worker of xdist, as far as a refusal asks."""


def test_workers_of_xdist_refuse_once(judge: Judge) -> None:
    """A worker reports no tests, for xdist would wait for them, and its reason; the controller says it once."""
    judge.pytester.makeconftest(AS_A_WORKER)
    save_results(judge.results, NIGHT.measurements())
    result = judge.judge("-k", "nothing_at_all", "-s")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    (reason,) = [line.removeprefix("told: ") for line in result.outlines if line.startswith("told: ")]
    assert reason.startswith("--from-results stored holds launches of the gpu tier, and none of its checks is selected")
    refusals, session = Refusals(), SimpleNamespace(exitstatus=pytest.ExitCode.NO_TESTS_COLLECTED)
    written: list[str] = []
    for _ in range(2):
        refusals.pytest_testnodedown(SimpleNamespace(workeroutput={WORKER_KEY: reason}))
    refusals.pytest_sessionfinish(cast(pytest.Session, session))
    reporter = SimpleNamespace(write_line=lambda line, red: written.append(line))
    refusals.pytest_terminal_summary(cast(pytest.TerminalReporter, reporter))
    assert (session.exitstatus, written) == (pytest.ExitCode.USAGE_ERROR, [f"ERROR: {reason}"])


def test_baselines_are_a_folder(judge: Judge) -> None:
    """A file in their place is refused by name, before anything is read or measured, and left as it was."""
    file = judge.pytester.path / "mine.json"
    file.write_text("mine")
    assert refused(judge.run(NIGHT, "--baselines", "mine.json")) == (
        "ERROR: --baselines mine.json is no folder: name the one that holds the files, or a new one."
    )
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("update", "status", "then"),
    [
        ((), pytest.ExitCode.TESTS_FAILED, "nothing is accepted, so every check that needs*will end NO_BASELINE"),
        (("--update-baselines", "--reason", "x"), pytest.ExitCode.OK, "--update-baselines will make it"),
        (("--update-baselines", "--reason", "x", "--dry-run"), None, "a dry run does not make it"),
    ],
    ids=["judged", "updated", "dry run"],
)
def test_a_missing_folder_is_said(
    judge: Judge, update: tuple[str, ...], status: pytest.ExitCode | None, then: str
) -> None:
    """A session says at its beginning that the folder is not there, and what comes of it; and so it comes."""
    result = judge.run(NIGHT, "--baselines", "new", *update)
    result.stdout.fnmatch_lines([f"shardgate: there is no folder --baselines new: {then}"])
    assert status in (None, result.ret)
    assert Path(judge.pytester.path / "new").is_dir() == (status is pytest.ExitCode.OK)
