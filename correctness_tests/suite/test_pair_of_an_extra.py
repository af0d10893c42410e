"""The nightly's pairs with an arm that not every job has, fsdp1, zero3: judged where measured, missed nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from correctness_tests.suite.judging import NIGHT, Judge, judge
from correctness_tests.suite.synthetic import ARMS, Figures, accepted
from fixtures.extras import Extra
from fixtures.gate.comparisons import compare
from fixtures.measurements import GIB

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

ZERO3, FSDP1 = Figures(3 * GIB, 12 * GIB, 500.0), Figures(2 * GIB, 9 * GIB, 350.0)
WITH = replace(NIGHT, arms={**ARMS, "zero3": ZERO3, "fsdp1": FSDP1})


@pytest.fixture(autouse=True)
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra is installed here: what was measured elsewhere is judged all the same."""
    monkeypatch.setattr(Extra, "installed", False)


@pytest.mark.parametrize(("arm", "metrics"), [("zero3", ["resident", "peak"]), ("fsdp1", ["resident", "peak", "step"])])
def test_what_the_pair_is_compared_by(arm: str, metrics: list[str]) -> None:
    """Where both arms were measured there is a comparison of memory, and of step times where both are FSDP's."""
    compared = [c.case for c in compare(WITH.measurements(), None, gate_times=True)]
    assert [c.metric for c in compared if (c.numerator, c.denominator) == ("fsdp2", arm)] == metrics


def test_stored_results_with_the_arms_are_judged(judge: Judge) -> None:
    """Another night of the same code passes, the five cases of these pairs among the others."""
    judge.accept(accepted(WITH))
    result = judge.run(replace(WITH, seed=1))
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert sum(line.endswith("PASS") for line in result.outlines) == 11


def test_a_step_that_slips_beside_fsdp1_is_caught(judge: Judge) -> None:
    """FSDP2 and DDP slower alike move no ratio of theirs: the ratio to FSDP1 does."""
    judge.accept(accepted(WITH))
    slow = {arm: figures.scaled(step=1.2) for arm, figures in ARMS.items()}
    result = judge.run(replace(WITH, seed=1, arms={**WITH.arms, **slow}))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [line.split(" on ")[0] for line in result.outlines if line.startswith("REGRESSED")] == [
        "REGRESSED gpt2-rehearsal/fsdp2:fsdp1/step"
    ]


def test_a_slip_beside_the_extra_is_caught(judge: Judge) -> None:
    """DeepSpeed holding 14% less makes the ratio worse: REGRESSED, and zero3 is the arm that moved."""
    judge.accept(accepted(WITH))
    result = judge.run(replace(WITH, seed=1, arms={**WITH.arms, "zero3": ZERO3.scaled(resident=0.86)}))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["REGRESSED gpt2-rehearsal/fsdp2:zero3/resident on *"])
    result.stdout.re_match_lines([r"  moved       zero3 -14\.0%, fsdp2 unchanged"])


@pytest.mark.parametrize(("arm", "options"), [("zero3", []), ("fsdp1", ["-k", "not fsdp1"])])
def test_results_without_the_arm_lose_nothing(judge: Judge, arm: str, options: list[str]) -> None:
    """DeepSpeed need not have been installed where results are from; FSDP1's checks may be left out by name."""
    judge.accept(accepted(WITH))
    arms = {name: figures for name, figures in WITH.arms.items() if name != arm}
    result = judge.run(replace(WITH, seed=1, arms=arms), "-rs", *options)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    skips = [line for line in result.outlines if line.startswith("SKIPPED") and f"no {arm}" in line]
    assert [line.partition(": ")[2] for line in skips] == [
        f"these results hold no {arm}: it was not launched where they are from"
    ] * (not options)


def test_fsdp1_that_vanished_is_lost(judge: Judge) -> None:
    """Every torch so far has FSDP1: results without it, judged by a baseline that names its cases, do not pass."""
    judge.accept(accepted(WITH))
    result = judge.run(replace(WITH, seed=1, arms={name: WITH.arms[name] for name in (*ARMS, "zero3")}))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"ERROR: lost: gpt2-rehearsal/fsdp2:fsdp1/{m}: *" for m in ("peak", "resident")])
