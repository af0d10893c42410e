"""The nightly's pair with an extra's arm, fsdp2 beside zero3: judged where it was measured, missed nowhere else."""

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

ZERO3 = Figures(3 * GIB, 12 * GIB, 500.0)
WITH = replace(NIGHT, arms={**ARMS, "zero3": ZERO3})


@pytest.fixture(autouse=True)
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra is installed here: what was measured elsewhere is judged all the same."""
    monkeypatch.setattr(Extra, "installed", False)


def test_the_pair_is_compared_in_memory_alone() -> None:
    """Where both arms were measured there is a comparison of resident and of peak, and none of step times."""
    compared = [c.case for c in compare(WITH.measurements(), None, gate_times=True)]
    assert [c.metric for c in compared if (c.numerator, c.denominator) == ("fsdp2", "zero3")] == ["resident", "peak"]


def test_stored_results_with_the_arm_are_judged(judge: Judge) -> None:
    """Another night of the same code passes, its two cases of the pair among the others."""
    judge.accept(accepted(WITH))
    result = judge.run(replace(WITH, seed=1))
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert sum(line.endswith("PASS") for line in result.outlines) == 8


def test_a_slip_beside_the_extra_is_caught(judge: Judge) -> None:
    """DeepSpeed holding 14% less makes the ratio worse: REGRESSED, and zero3 is the arm that moved."""
    judge.accept(accepted(WITH))
    result = judge.run(replace(WITH, seed=1, arms={**ARMS, "zero3": ZERO3.scaled(resident=0.86)}))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["REGRESSED gpt2-rehearsal/fsdp2:zero3/resident on *"])
    result.stdout.re_match_lines([r"  moved       zero3 -14\.0%, fsdp2 unchanged"])


def test_results_without_the_arm_lose_nothing(judge: Judge) -> None:
    """A night without the extra, judged by a baseline that has it: the pair is skipped with one line, and not lost."""
    judge.accept(accepted(WITH))
    result = judge.run(replace(NIGHT, seed=1), "-rs")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    skips = [line for line in result.outlines if line.startswith("SKIPPED") and "no zero3" in line]
    assert len(skips) == 1, result.outlines
    assert skips[0].endswith("these results hold no zero3: the extra was not installed where they are from")
