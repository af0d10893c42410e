"""The command that plants regressions by mutation names its tests, knows its survivors and fails when it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from correctness_tests.suite.mutation import __main__ as command
from correctness_tests.suite.mutation.modules import MODULES, ON_RANKS
from correctness_tests.suite.mutation.survivors import Explained, explanations, unexplained
from correctness_tests.suite.mutation.workplace import ROOT, Mutant, WorkplaceError, undecorated

pytestmark = pytest.mark.cpu

MODULE = "fixtures.gate.verdicts"
ENTRY = f'[["{MODULE}"]]\nwas = "a < b"\nbecomes = ["a <= b"]\n'
TRIED = ("fixtures/gate", "fixtures/ledger", "fixtures/meters")


def source(module: str) -> Path:
    """Where a module lies."""
    return ROOT / f"{module.replace('.', '/')}.py"


def test_every_module_has_its_tests() -> None:
    """A new module of the gate, ledger or meters is given the tests that must kill its mutants."""
    found = {f"{folder.replace('/', '.')}.{path.stem}" for folder in TRIED for path in (ROOT / folder).glob("*.py")}
    new = {name for name in found - {*MODULES, *ON_RANKS} if not name.endswith(".__init__")}
    assert not new, f"name their tests in correctness_tests/suite/mutation/modules.py: {new}"
    gone = set(ON_RANKS) - found
    assert not gone, f"take them out of ON_RANKS in correctness_tests/suite/mutation/modules.py: {gone}"


@pytest.mark.parametrize("module", MODULES)
def test_named_tests_exist(module: str) -> None:
    """A module and all tests that are named for it are there."""
    assert source(module).is_file()
    assert [test for test in MODULES[module] if not (ROOT / "correctness_tests/suite" / test).is_file()] == []


@pytest.mark.parametrize("module", explanations())
def test_survivors_are_of_lines_that_exist(module: str) -> None:
    """A reason is kept no longer than the line it speaks of."""
    lines = " ".join(line.strip() for line in undecorated(source(module).read_text(encoding="utf-8")).splitlines())
    assert [entry.was for entry in explanations()[module] if entry.was not in lines] == []


@pytest.mark.parametrize("entry", [ENTRY, ENTRY + 'why = " "\n', ENTRY + 'why = "equivalent"\nlines = [3]\n'])
def test_survivor_without_a_reason_is_refused(entry: str) -> None:
    """A reason that is missing or blank, and a key that nobody reads, are errors that name the entry."""
    with pytest.raises(ValueError, match=rf"{MODULE}: an entry has was, becomes and why"):
        explanations(entry)


def test_one_reason_may_serve_several_mutants_of_a_line() -> None:
    """Only the mutants that are named are explained, and a reason whose mutant was killed is told."""
    reason = Explained("a < b", ("a <= b", "a > b"), "equivalent")
    assert unexplained([("a < b", "a <= b"), ("a < b", "a == b")], [reason]) == ([("a < b", "a == b")], [reason])
    assert unexplained([("a < b", "a <= b"), ("a < b", "a > b")], [reason]) == ([], [])


KILLED = [Mutant(f"m{i}", "killed") for i in range(18)]
LIVING = Mutant("alive", "survived", "a < b", "a <= b")


@pytest.mark.parametrize(
    ("mutants", "explained", "status"),
    [
        (KILLED, False, 0),
        ([*KILLED, LIVING], True, 0),
        ([*KILLED, LIVING], False, 1),
        ([*KILLED, LIVING, LIVING, LIVING], True, 1),  # 86%
        ([*KILLED, Mutant("no test", "no tests", "a < b", "a <= b")], False, 1),
    ],
)
def test_exit_status_follows_score_and_reasons(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mutants: list[Mutant],
    explained: bool,
    status: int,
) -> None:
    """1 for a living mutant without a reason, shown as it would stand in the file, and for a score below 90%."""
    reasons = {MODULE: [Explained(LIVING.was, (LIVING.becomes,), "equivalent")]} if explained else {}
    assert run(monkeypatch, mutants, reasons) == status
    assert (ENTRY in capsys.readouterr().out) is (LIVING.status != "killed" and not explained and len(mutants) > 18)


def test_mutmut_that_cannot_run_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Tests that fail without any mutant say so, and the module counts as wrong."""
    assert run(monkeypatch, WorkplaceError("FAILED test_x"), {}) == 1
    assert "FAILED test_x" in capsys.readouterr().out


def run(
    monkeypatch: pytest.MonkeyPatch, found: list[Mutant] | WorkplaceError, reasons: dict[str, list[Explained]]
) -> int:
    """The command's status when mutmut finds this in the one module asked for."""

    def mutants_of(module: str, tests: tuple[str, ...], folder: Path) -> list[Mutant]:
        if isinstance(found, WorkplaceError):
            raise found
        return found

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(command, "mutants_of", mutants_of)
    monkeypatch.setattr(command, "explanations", lambda: reasons)
    monkeypatch.setattr("sys.argv", ["mutation", MODULE])
    return command.main()


DECORATED = '''
import functools

class Box:
    """A box."""

    @property
    def size(self):
        """How large."""
        return 3

    @staticmethod
    def of():
        return Box()

@functools.lru_cache(
    maxsize=2
)
def twice(x):
    return 2 * x
'''


def test_undecorated_module_does_the_same() -> None:
    """Properties and cached functions work as before with nothing above their ``def`` that hides them from mutmut."""
    plain = undecorated(DECORATED)
    assert [line.strip() for line in plain.splitlines() if line.strip().startswith("@")] == ["@staticmethod"]
    names: dict[str, object] = {}
    exec(plain, names)
    assert eval("(Box.of().size, Box.size.__doc__, twice(4), twice.cache_info().maxsize)", names) == (
        3,
        "How large.",
        8,
        2,
    )
