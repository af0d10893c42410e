"""An optional extra that is not installed is skipped with one line, fails nothing, and never passes by not running."""

from __future__ import annotations

import pytest

from correctness_tests.gradients import uneven_gpt2
from fixtures.errors import UsageError
from fixtures.extras import ZERO3, Extra
from fixtures.platforms import playing_rank
from fixtures.strategies import OF_EXTRAS, build_model, get_strategy
from fixtures.tiers import asked_for

pytestmark = pytest.mark.cpu

LINE = "zero3 needs DeepSpeed, an optional extra that is not installed: DS_BUILD_OPS=0 pip install -e '.[[]zero3]'"
"""The start of the one line, as pytester's globs want it."""

TESTS = """
import pytest
pytestmark = pytest.mark.cpu
def test_of_the_tier(): pass
@pytest.mark.zero3
@pytest.mark.parametrize("n", [2, 4])
def test_of_the_extra(n): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A small project that loads the suite's plugin, where no extra is installed."""
    monkeypatch.setattr(Extra, "installed", False)
    pytester.makeini("[pytest]\naddopts = -rfEs\nmarkers =\n  cpu: one tier\n  gpu: the other\n  zero3: an extra\n")
    pytester.makepyfile(test_small=TESTS)
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest on the small project, in this process, with the suite's own report of skips."""
    return suite.runpytest_inprocess("-p", "fixtures.plugin", "-p", "no:randomly", *arguments)


@pytest.mark.parametrize("arguments", [(), ("-m", "cpu"), ("-m", "not gpu"), ("-q",)], ids=" ".join)
def test_a_missing_extra_is_counted_and_no_failure(suite: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """Nobody asked for it: the tier passes by its others, and the last line says how many tests that left out."""
    result = run(suite, *arguments)
    assert result.ret == pytest.ExitCode.OK
    assert not [line for line in result.outlines if line.startswith("SKIPPED")]
    result.stdout.re_match_lines([r"=* ?1 passed, 2 without zero3 in .*"])


@pytest.mark.parametrize(
    "arguments", [("-rs",), ("-rA",), ("-v",), ("-k", "tier or extra and not zero3x")], ids=" ".join
)
def test_why_is_one_line_on_request(suite: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """Verbose, ``-rs`` or by its name: its tests are skipped with one line that says how to install it."""
    result = run(suite, *arguments)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, skipped=2)
    assert sum(line.startswith("SKIPPED") for line in result.outlines) == 1
    result.stdout.fnmatch_lines([f"SKIPPED [[]2] *{LINE}, or tox -e zero3"])


@pytest.mark.parametrize("arguments", [("-m", "zero3"), ("-m", "cpu and zero3")], ids=" ".join)
def test_an_extra_that_was_asked_for_fails_where_it_is_missing(
    suite: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    """``-m zero3``, which ``tox -e zero3`` runs, fails without DeepSpeed and counts what did not run."""
    result = run(suite, *arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"ERROR: 0 of 2 zero3 checks ran: {LINE}*"])


def test_an_extra_that_is_installed_runs(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: where it is installed its tests run, and asking for them passes."""
    monkeypatch.setattr(Extra, "installed", True)
    result = run(suite, "-m", "zero3")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2, deselected=1)


def test_leaving_an_extra_out_does_not_ask_for_it() -> None:
    """``not zero3`` asks for no extra."""
    assert asked_for("cpu and not zero3") == {"cpu"}
    assert asked_for("cpu and zero3") == {"cpu", "zero3"}


@pytest.mark.parametrize("name", OF_EXTRAS)
def test_a_strategy_of_a_missing_extra_is_a_usage_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy whose extra is missing has a name, and says how to install it when it is applied."""
    monkeypatch.setattr(Extra, "installed", False)
    workload = uneven_gpt2()
    with (
        playing_rank(0, 2) as platform,
        pytest.raises(UsageError, match="needs DeepSpeed, an optional extra") as caught,
    ):
        get_strategy(name).apply(build_model(workload, 0), workload, platform.mesh(), platform.device(0), "fp32")
    assert ZERO3.install in str(caught.value)
