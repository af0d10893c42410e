"""A soak repeats a session's checks on ranks in its own pools; what grows from round to round fails it by name."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

import fixtures.platforms  # noqa: F401  torch can't be imported twice, and pytester forgets what a test imports
from correctness_tests.suite.soak import leaks
from correctness_tests.suite.soak.drift import FEWEST, MAY_GROW, drifts
from correctness_tests.suite.soak.rounds import ENDS, NAME, Rounds
from fixtures.ranks import RankPools

pytestmark = pytest.mark.cpu

ROUNDS = 7
SESSION = """
import functools
import pathlib
import pytest
from correctness_tests.suite.soak import leaks

@functools.cache
def reading():
    with pathlib.Path("read").open("a") as file:
        file.write("x")

@pytest.mark.cpu
def test_on_ranks(ranks):
    reading()
    for job in {jobs}:
        ranks(1).run(job)
    for leak in {here}:
        leak()

@pytest.mark.cpu
def test_without_ranks():
    assert False, "uses no pool, and is left out"
"""
Soak = Callable[..., tuple[pytest.RunResult, Rounds]]


@pytest.fixture
def soak(pytester: pytest.Pytester, rank_pools: RankPools, monkeypatch: pytest.MonkeyPatch) -> Iterator[Soak]:
    """Runs a session in this process, its ranks those of this process's fork server; the result and its rounds."""
    monkeypatch.setattr(tempfile, "tempdir", str(pytester.mkdir("temporary")))
    pytester.makeini("[pytest]\nmarkers =\n  cpu: one tier\n  gpu: the other\n")

    def run(jobs: str = "()", here: str = "()", rounds: int = ROUNDS) -> tuple[pytest.RunResult, Rounds]:
        made = _Soaked(rounds)
        pytester.makepyfile(test_session=SESSION.format(jobs=jobs, here=here))
        arguments = ["-p", "fixtures.plugin", "-p", "no:randomly", "-p", "no:cacheprovider"]
        return pytester.runpytest_inprocess(*arguments, plugins=[made]), made.rounds

    leaks.ENDED.clear()
    yield run
    leaks.ENDED.set()


class _Soaked:
    """Registers the rounds as the command's option does."""

    def __init__(self, rounds: int) -> None:
        self.rounds = Rounds(rounds, 0.0)

    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self.rounds, NAME)


def grown(rounds: Rounds) -> set[str]:
    """What grows, without the time, of which a round of milliseconds has no steady one."""
    return {drift.name for drift in rounds.grown} - {"CPU s"}


def test_every_round_does_the_work_again_in_the_same_pool(soak: Soak, pytester: pytest.Pytester) -> None:
    """Checks on ranks run once a round and the others never; what a module had kept is read anew; nothing grows."""
    result, rounds = soak("(leaks.leave_nothing,)")
    result.assert_outcomes(passed=0, deselected=1)  # passes are not kept: see Rounds
    assert (pytester.path / "read").read_text() == "x" * ROUNDS
    assert len(rounds.readings) == ROUNDS
    assert {"ranks of cpu-gloo-1: memory KiB", "fork server: descriptors", "pytest: threads"} <= rounds.readings[
        0
    ].keys()
    assert grown(rounds) == set()


def test_session_fixtures_keep_nothing_of_a_round(soak: Soak) -> None:
    """What pytest must end before the session's own fixtures does not become more by a test's fixtures a round."""
    _, rounds = soak()
    assert {reading[ENDS] for reading in rounds.readings} == {rounds.readings[0][ENDS]}
    assert rounds.readings[0][ENDS] > 0, "nothing was counted"


def test_only_reports_of_failures_outlive_a_round() -> None:
    """A terminal forgets what was skipped, of an extra too, or failed as expected: 270 KiB of reports a round."""
    kinds = ("", "passed", "skipped", "xfailed", "without zero3", "failed", "error", "deselected", "warnings")
    terminal = SimpleNamespace(stats={kind: ["a report"] for kind in kinds}, write_line=lambda line: None)
    plugins = SimpleNamespace(get_plugin=lambda name: terminal)
    rounds = Rounds(1, 0.0)
    rounds.readings.append({"wall s": 1.0, "CPU s": 1.0})
    rounds._tell(cast(pytest.Session, SimpleNamespace(config=SimpleNamespace(pluginmanager=plugins))), 0)
    assert set(terminal.stats) == {"failed", "error", "deselected", "warnings"}


def test_what_leaks_is_named(soak: Soak) -> None:
    """A descriptor and a tensor kept on a rank, a thread and a temporary file left in pytest, one a round: each is
    found, and the session fails."""
    result, rounds = soak(
        "(leaks.keep_a_descriptor, leaks.keep_a_tensor)", "(leaks.leave_a_thread, leaks.leave_a_file)"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = {
        "ranks of cpu-gloo-1: descriptors",
        "ranks of cpu-gloo-1: memory KiB",
        "pytest: threads",
        "temporary files",
    }
    assert found <= grown(rounds)
    result.stdout.fnmatch_lines(["ranks of cpu-gloo-1: descriptors * GROWS"])


def test_too_few_rounds_say_so(soak: Soak) -> None:
    """A soak that ends early does not claim that nothing grows, and fails."""
    result, _ = soak(rounds=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["soak: nothing can be told: 1 rounds after the settling ones, and 6 tell *"])


def series(name: str, values: Sequence[float]) -> bool:
    """Whether a series of this name grows, after one settling round."""
    (drift,) = drifts([{name: value} for value in (1e9, *values)])
    return drift.grows


@pytest.mark.parametrize(
    ("name", "values", "grows"),
    [
        ("pytest: descriptors", [20, 21, 22, 23, 24, 25, 26], True),
        ("pytest: descriptors", [20, 25, 21, 20, 25, 21, 20], False),
        ("pytest: descriptors", [20, 20, 20, 20, 20, 20, 90], False),
        ("pytest: memory KiB", [1000 + 2 * MAY_GROW["KiB"] * i for i in range(7)], True),
        ("pytest: memory KiB", [1000 + MAY_GROW["KiB"] / 2 * i for i in range(7)], False),
        ("pytest: memory KiB", [1000, 9000, 1000, 9000, 1000, 9000, 1000], False),
        ("CPU s", [10 + i for i in range(7)], True),
        ("CPU s", [10, 11, 10, 12, 10, 11, 10], False),
        ("wall s", [10 + i for i in range(7)], False),
    ],
)
def test_only_what_rises_steadily_grows(name: str, values: list[float], grows: bool) -> None:
    """A rise from round to round is growth; one odd round, coming and going, or what the clock says is none."""
    assert series(name, values) is grows


def test_verdict_needs_enough_rounds() -> None:
    """Fewer than six rounds after the settling ones are no evidence of anything."""
    with pytest.raises(ValueError, match=f"{FEWEST - 1} rounds after the settling ones"):
        drifts([{"pytest: threads": 1.0}] * FEWEST)
