"""Property: figures of a user's own workload say at which commit of which repository its code was, changed or not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from correctness_tests.suite.budget_sessions import UPDATE, Session, session
from correctness_tests.suite.synthetic import Job, accepted
from correctness_tests.suite.test_several_nodes import write_parts
from fixtures.commits import user_code
from fixtures.errors import UsageError
from fixtures.gate.baselines import parse, render
from fixtures.gate.budget_files import load_budgets
from fixtures.gate.comparisons import compare
from fixtures.gate.proposals import Asked, propose
from fixtures.measurements import Measurement, UserCode
from fixtures.report.header import header_lines
from fixtures.report.messages import failure_message
from fixtures.report.results import load_results

pytestmark = pytest.mark.cpu

__all__ = ["session"]  # the fixture

GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
CLEAN = UserCode(module="my_models", repository="ours", commit="feedfacecafe", dirty=False)
DIRTY = CLEAN.model_copy(update={"dirty": True})


def git(folder: Path, *arguments: str) -> None:
    """Run git there; fails where it does."""
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True)


def beside(folder: Path) -> str:
    """The module beside the session: of a name of its own, since the import system keeps what it found in a folder that
    it knows by a relative name."""
    return f"shardgate_users_{folder.parent.name}"


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a model in a package and one beside it, all committed, from which the session is started."""
    folder = tmp_path / "ours"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("raise RuntimeError('nobody may import this')\n")
    (folder / "pkg" / "models.py").write_text("def factory(): ...\n")
    (folder / f"{beside(folder)}.py").write_text("def factory(): ...\n")
    (folder / ".gitignore").write_text("venv/\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "models")
    monkeypatch.chdir(folder)
    return folder


def of(reference: str) -> UserCode:
    """The code of a reference that is a user's."""
    found = user_code(reference)
    assert found is not None
    return found


def test_commit_and_repository_are_found(ours: Path) -> None:
    """A module beside the session and one in a package, whose own code is not run: repository, commit, no changes."""
    head = subprocess.run([*GIT, "rev-parse", "HEAD"], cwd=ours, check=True, capture_output=True, text=True).stdout
    for reference in (f"{beside(ours)}:factory", "pkg.models:factory"):
        found = of(reference)
        assert found == UserCode(
            module=reference.partition(":")[0], repository="ours", commit=head[: len(found.commit or "")], dirty=False
        )
        assert len(found.commit or "") >= 12


def edit(folder: Path) -> None:
    """Change a tracked file that the model may read."""
    (folder / ".gitignore").write_text("venv/\n*.log\n")


def add(folder: Path) -> None:
    """Leave a module that no commit holds."""
    (folder / "pkg" / "layers.py").write_text("")


def keep_results(folder: Path) -> None:
    """Leave what sessions leave: results, and a baseline that an update changed."""
    (folder / "results").mkdir()
    (folder / "results" / "launch-0000-ddp.json").write_text("{}")
    (folder / "accepted").mkdir()
    baseline = folder / "accepted" / "cpu-gloo-4.json"
    baseline.write_text("{}")
    git(folder, "add", "accepted")
    git(folder, "commit", "-qm", "a baseline")
    baseline.write_text('{"changed": 1}')


@pytest.mark.parametrize(("change", "dirty"), [(edit, True), (add, True), (keep_results, False)])
def test_changes_of_code_are_seen(ours: Path, change: Callable[[Path], None], dirty: bool) -> None:
    """An edited file and a module that is in no commit make it dirty; results and baselines of sessions don't."""
    change(ours)
    assert of(f"{beside(ours)}:factory").dirty is dirty


def test_what_no_repository_keeps_has_its_name_alone(ours: Path) -> None:
    """An environment that git ignores inside the repository, and a module that is not there."""
    package = ours / "venv" / "shardgate_installed"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(package.parent))
        assert of("shardgate_installed:factory") == UserCode(module="shardgate_installed")
    assert str(of("shardgate_nonesuch:factory")) == "shardgate_nonesuch in no repository"


def test_the_suites_own_have_the_suites_commit() -> None:
    """A registered name and an example of the suite: its own commit says all."""
    assert [user_code(reference) for reference in ("mlp", "examples.huggingface_gpt2:tiny")] == [None, None]


def measured(*codes: UserCode) -> list[Measurement]:
    """A quiet night whose launches carry these codes, in turn."""
    return [
        m.model_copy(update={"provenance": m.provenance.model_copy(update={"user_code": codes[i % len(codes)]})})
        for i, m in enumerate(Job().measurements())
    ]


def test_uncommitted_changes_of_the_model_are_refused() -> None:
    """One dirty launch refuses the update, naming the repository; ``--allow-dirty`` takes it, and the entry says so."""
    compared = compare(measured(DIRTY, CLEAN, CLEAN), None, gate_times=True)
    refused = propose(compared, None, Asked("first"))
    assert {row.note for row in refused.refused} >= {
        "measured with uncommitted changes of ours, where my_models lies: commit them and measure again, or pass "
        "--allow-dirty"
    }
    file = propose(compared, None, Asked("first", allow_dirty=True)).file
    assert file is not None
    entries = parse(Path(f"{file.platform.key}.json"), render(file)).entries
    assert DIRTY in {entry.provenance.user_code for entry in entries.values()}


def test_a_model_that_changed_meanwhile_is_refused() -> None:
    """Launches of two commits of the user's repository are judged and never accepted."""
    other = CLEAN.model_copy(update={"commit": "0ddba11"})
    compared = compare(measured(CLEAN, CLEAN, CLEAN, other), None, gate_times=True)
    notes = {row.note for row in propose(compared, None, Asked("first")).refused}
    assert any("0123456789ab with 0ddba11 / 0123456789ab with feedfacecafe" in note for note in notes)


def test_header_and_message_name_the_code() -> None:
    """The session's beginning has the code that is measured, a failing check's message the accepted one's."""
    lines = header_lines("cpu-gloo-4", [], ["my_models:factory"], [DIRTY, DIRTY], None, datetime.now(UTC))
    assert "code      my_models of ours, commit feedfacecafe+changes" in [line.strip() for line in lines]
    baseline = propose(compare(measured(CLEAN), None, gate_times=True), None, Asked("first")).file
    (comparison, *_) = compare(measured(DIRTY), baseline, gate_times=True)
    assert "my_models of ours, commit feedfacecafe:" in " ".join(failure_message(comparison).split())


def test_nodes_must_run_the_same_model(tmp_path: Path) -> None:
    """Parts of one launch at two commits of the model don't belong together."""
    first, second = measured(CLEAN)[0], measured(CLEAN.model_copy(update={"commit": "0ddba11"}))[0]
    write_parts(tmp_path, [first.model_copy(update={"ranks": first.ranks[:2]})])
    write_parts(tmp_path, [second.model_copy(update={"ranks": second.ranks[2:]})])
    with pytest.raises(UsageError, match="another user_code"):
        load_results(tmp_path)


def test_a_budget_names_the_code(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget's update follows the same rule, and its entry has the code."""
    code = [DIRTY]
    monkeypatch.setattr("fixtures.session.budgets.user_code", lambda reference: code[0])
    own = ("--workload", "my_models:factory", *UPDATE)
    result = session.run(*own)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "with uncommitted changes of ours, where my_models lies" in result.stderr.str()
    code[0] = CLEAN
    assert session.run(*own).ret == pytest.ExitCode.OK
    assert {entry.provenance.user_code for entry in load_budgets(session.path).entries.values()} == {CLEAN}


def test_entries_without_it_stay_as_they_are() -> None:
    """Files written before are read and rendered without the field: no format of their own."""
    assert "user_code" not in render(accepted())
