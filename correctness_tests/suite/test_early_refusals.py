"""Property: what an update would be refused for in the end, and is known at its start, is refused before any launch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from correctness_tests.suite.judging import Judge, judge
from correctness_tests.suite.test_commands import options_of
from correctness_tests.suite.test_user_code import CLEAN, DIRTY
from fixtures.errors import UsageError
from fixtures.gate.proposals import Asked
from fixtures.session.early_refusals import Check, refuse_names, refuse_update

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

UPDATE = ("--update-baselines", "--reason", "torch 2.14.1")
SELECTED: frozenset[Check] = frozenset({(("fsdp2", "ddp"), "resident")})
CASE = "mlp/fsdp2:ddp/resident"


def test_uncommitted_code_is_refused_at_once(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 4 and one sentence before the workload is tried or launched: nothing is measured or written."""
    monkeypatch.setattr("fixtures.session.job.code_commit", lambda: ("abc1234", True))
    monkeypatch.setattr("fixtures.session.job.tried_reference", lambda *of: pytest.fail("a rank was started"))
    before = sorted(judge.pytester.path.glob("[!.]*"))
    given = ("-p", "fixtures.plugin", "-m", "gpu", "--rehearse", "-k", "resident", "--baselines", "accepted")
    result = judge.pytester.runpytest_inprocess(*given, *UPDATE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: --update-baselines with uncommitted changes: commit them and measure again, or pass --allow-dirty. "
        "Nothing was measured."
    ]
    assert [path for path in sorted(judge.pytester.path.glob("[!.]*")) if path.name != "__pycache__"] == before


def test_changes_of_a_users_model_are_refused_too() -> None:
    """The repository and the module are named; clean code, no repository and ``--allow-dirty`` pass."""
    options = options_of(["--rehearse", *UPDATE])
    with pytest.raises(UsageError, match="with uncommitted changes of ours, where my_models lies: commit"):
        refuse_update(options, False, DIRTY)
    refuse_update(options, False, CLEAN)
    refuse_update(options, None, None)
    refuse_update(options_of(["--rehearse", *UPDATE, "--allow-dirty"]), True, DIRTY)


def test_a_session_that_updates_nothing_may_be_of_any_code() -> None:
    """Uncommitted code is judged."""
    refuse_update(options_of(["--rehearse"]), True, DIRTY)


@pytest.mark.parametrize("reason", ["x" * 1001, "\ud800"])
def test_a_reason_that_can_not_be_stored_is_refused(reason: str) -> None:
    """It would be found by the entry that holds it."""
    with pytest.raises(UsageError, match=r"--reason can't be stored: .* Nothing was measured"):
        refuse_update(options_of(["--rehearse", "--update-baselines", "--reason", reason]), False, None)


@pytest.mark.parametrize("folder", ["file/accepted", "closed", "closed/accepted"])
def test_a_closed_folder_is_refused(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a file, read-only, or to be made in a read-only one; a dry run needs none."""
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / "closed")  # root may write anywhere
    where = ("--baselines", str(tmp_path / folder))
    with pytest.raises(UsageError, match=r"can't be written: .*(is no folder|read-only to this user)\. Name another"):
        refuse_update(options_of(["--rehearse", *UPDATE, *where]), False, None)
    refuse_update(options_of(["--rehearse", *UPDATE, *where, "--dry-run"]), False, None)
    refuse_update(options_of(["--rehearse", *UPDATE, "--baselines", str(tmp_path / "new" / "one")]), False, None)


@pytest.mark.parametrize("name", ["mlp/fsdp2:ddp/peak", "mlp/fsdp1:ddp/resident", "resident"])
def test_names_that_no_selected_check_is_about_are_refused(name: str) -> None:
    """A case of another metric, of another pair, and what is no case; the one that is selected passes."""
    with pytest.raises(UsageError, match=f"no selected check is about {name}: .* Selected are fsdp2:ddp/resident"):
        refuse_names(Asked("x", accept=frozenset({name, CASE})), SELECTED, {})
    refuse_names(Asked("x", accept=frozenset({CASE})), SELECTED, {})


def test_an_entry_that_is_not_there_can_not_be_deleted() -> None:
    """The file's entries are named."""
    with pytest.raises(UsageError, match=f"no entry is called mlp/x. The file has: {CASE}"):
        refuse_names(Asked("x", delete=frozenset({"mlp/x"})), SELECTED, {CASE: None})
    refuse_names(Asked("x", delete=frozenset({CASE})), SELECTED, {CASE: None})


def test_an_update_of_nothing_is_refused() -> None:
    """Selected checks that compare no arms have nothing that an update stores."""
    with pytest.raises(UsageError, match="no selected check is about one"):
        refuse_names(Asked("x"), frozenset(), {})
