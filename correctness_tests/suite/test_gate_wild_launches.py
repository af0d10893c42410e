"""One wild launch is named, counts all the same, and can't decide a verdict on its own."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from correctness_tests.suite.synthetic import Job
from fixtures.gate.statistics import paired_ratio
from fixtures.gate.verdicts import TIME, Verdict, judge

pytestmark = pytest.mark.cpu


def test_wild_launch_is_named() -> None:
    """The launch that lies far from the others is in ``wild``, by its place among the pairs."""
    assert paired_ratio([1.0, 1.01, 0.99, 1.6, 1.0, 1.0], [1.0] * 6).wild == (3,)


def test_wild_launch_is_not_dropped() -> None:
    """It still moves the mean: dropping it would give 1.0."""
    assert paired_ratio([1.0, 1.0, 1.0, 1.6, 1.0, 1.0], [1.0] * 6).ratio == pytest.approx(1.6 ** (1 / 6))


@pytest.mark.parametrize(
    ("logs", "wild"),
    [
        ([0.0, 0.001, 0.002, 0.5], (3,)),  # four are enough, wherever the others lie
        ([0.0, 0.001, 0.5], ()),  # of three none can be called wild
        ([-0.02, -0.01, 0.0, 0.01, 0.10], (4,)),  # the median deviation is 0.01: 5 standard deviations are 0.074
        ([-0.02, -0.01, 0.0, 0.01, 0.07], ()),
        ([0.0, 0.0, 0.0, 0.019], ()),  # nothing within 2% is wild, however quiet the others
    ],
)
def test_wild_is_five_robust_deviations_and_two_percent(logs: list[float], wild: tuple[int, ...]) -> None:
    """By the distance from the median, of at least four launches; 1.4826 median deviations are a standard deviation."""
    assert paired_ratio([2.0 * math.exp(log) for log in logs], [1.0] * len(logs)).wild == wild


def test_ordinary_noise_has_no_wild_launch() -> None:
    """2% noise over 50 nights of 6 pairs names fewer than 2 launches in 100."""
    named = 0
    for seed in range(50):
        launches = Job(own_sd=0.014, seed=seed).measurements()
        steps = {arm: [m.step_ms for m in launches if m.strategy == arm] for arm in ("ddp", "fsdp2")}
        named += len(paired_ratio(steps["fsdp2"], steps["ddp"]).wild)
    assert named <= 6


@given(st.integers(3, 12), st.floats(0.02, 50.0))
def test_one_wild_launch_alone_never_regresses(pairs: int, factor: float) -> None:
    """Quiet launches at the baseline and one at any factor: PASS or INCONCLUSIVE, never REGRESSED or IMPROVED."""
    assume(abs(factor - 1) > 1e-3)
    baseline = paired_ratio([1.0] * 3, [1.0] * 3)
    found = judge(paired_ratio([factor, *[1.0] * (pairs - 1)], [1.0] * pairs), baseline, TIME)
    assert found.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE)
