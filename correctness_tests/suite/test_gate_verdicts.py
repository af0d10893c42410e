"""One function decides, by the table in its module, for every combination."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.gate.statistics import RatioEstimate
from fixtures.gate.verdicts import (
    MEMORY,
    TIME,
    WORST_FIRST,
    Thresholds,
    Verdict,
    judge,
    lack_of_evidence,
    thresholds_for,
)

pytestmark = pytest.mark.cpu


def around(ratio: float, half: float | None, pairs: int = 4) -> RatioEstimate:
    """A ratio whose interval reaches ``half`` in log units on both sides; None: no interval."""
    low, high = (None, None) if half is None else (ratio * math.exp(-half), ratio * math.exp(half))
    return RatioEstimate(ratio=ratio, low=low, high=high, pairs=pairs)


def by_the_table(
    move: float, half: float | None, baseline_half: float | None, reasons: list[str], known: bool
) -> Verdict:
    """The documented table, written a second time from its words; ``move`` and widths as in the test below."""
    if reasons:
        return Verdict.INVALID
    if not known:
        return Verdict.NO_BASELINE
    if half is None:
        return Verdict.INCONCLUSIVE
    reach = math.sqrt(half**2 + (baseline_half or 0) ** 2)
    excluded = abs(math.log(1 + move)) > reach
    if abs(move) > 0.10 and excluded:
        return Verdict.REGRESSED if move > 0 else Verdict.IMPROVED
    return Verdict.INCONCLUSIVE if half > math.log(1.1) or abs(move) > 0.10 else Verdict.PASS


@given(
    move=st.sampled_from([-0.9, -0.5, -0.12, -0.101, -0.099, -0.03, 0.0, 0.005, 0.03, 0.099, 0.101, 0.12, 0.5, 9.0]),
    half=st.sampled_from([None, 0.0, 0.001, 0.02, 0.094, 0.0954, 0.11, 0.12, 0.5, 3.0]),
    baseline_half=st.sampled_from([None, 0.0, 0.03, 0.2]),
    reasons=st.sampled_from([[], ["a control read wrong"]]),
    known=st.booleans(),
    scale=st.floats(1e-3, 1e3),
    thresholds=st.sampled_from([MEMORY, TIME]),
)
def test_every_combination_follows_the_table(
    move: float,
    half: float | None,
    baseline_half: float | None,
    reasons: list[str],
    known: bool,
    scale: float,
    thresholds: Thresholds,
) -> None:
    """Whatever the move, the widths, the reasons and the baseline: the verdict is the table's."""
    baseline = around(scale, baseline_half) if known else None
    estimate = around(scale * (1 + move), half, pairs=4 if half is not None else 2)
    found = judge(estimate, baseline, thresholds, invalid_reasons=reasons)
    assert found.verdict is by_the_table(move, half, baseline_half, reasons, known)


@pytest.mark.parametrize("move", [0.10, -0.10])
def test_exactly_the_tolerance_passes(move: float) -> None:
    """10% is allowed, also where binary fractions say 0.10000000000000009."""
    assert judge(around(1 + move, 0.0), around(1.0, 0.0)).verdict is Verdict.PASS


def test_improvement_fails_too() -> None:
    """An improvement beyond the tolerance that nobody accepted is a failure."""
    found = judge(around(0.88, 0.0), around(1.0, 0.0))
    assert (found.verdict, found.verdict.fails) == (Verdict.IMPROVED, True)


def test_only_pass_passes() -> None:
    """Every verdict but PASS fails a tier that was asked for."""
    assert [v for v in Verdict if not v.fails] == [Verdict.PASS]


def test_every_verdict_has_a_severity() -> None:
    """The order of reports holds every verdict once."""
    assert sorted(WORST_FIRST) == sorted(Verdict)


def test_severity_lists_what_cannot_count_first() -> None:
    """A report lists INVALID before REGRESSED, and PASS last."""
    assert sorted(Verdict, key=lambda verdict: verdict.severity) == list(WORST_FIRST)


def test_time_may_drift_further_than_memory() -> None:
    """The step time has the thresholds of times; every other metric is bytes, and tight."""
    assert [thresholds_for(metric) for metric in ("step", "peak", "resident")] == [TIME, MEMORY, MEMORY]


@pytest.mark.parametrize(("ratio", "words"), [(1.12, "12.0% worse"), (0.88, "12.0% better")])
def test_reason_says_how_far_and_which_way(ratio: float, words: str) -> None:
    """Worse and better are both told as a positive percentage."""
    assert judge(around(ratio, 0.0), around(1.0, 0.0)).reason.startswith(words)


def test_interval_of_the_move_joins_both_intervals() -> None:
    """Each side is the root of the sum of squares: the measured end towards it, and the baseline's end away from it."""
    measured = RatioEstimate(ratio=1.05, low=1.02, high=1.06, pairs=4)
    accepted = RatioEstimate(ratio=1.0, low=0.98, high=1.03, pairs=4)
    found = judge(measured, accepted)
    down = math.hypot(math.log(1.05 / 1.02), math.log(1.03))
    up = math.hypot(math.log(1.06 / 1.05), math.log(1 / 0.98))
    expected = (0.05, 1.05 * math.exp(-down) - 1, 1.05 * math.exp(up) - 1)
    assert (found.move, found.move_low, found.move_high) == pytest.approx(expected)


@pytest.mark.parametrize(("ratio", "low", "high"), [(1.2, 1.0, 1.21), (0.85, 0.84, 1.0)])
def test_interval_that_ends_at_no_change_includes_it(ratio: float, low: float, high: float) -> None:
    """REGRESSED and IMPROVED want an interval that lies beyond no change, not one that ends there."""
    found = judge(RatioEstimate(ratio=ratio, low=low, high=high, pairs=4), around(1.0, 0.0))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "includes no change" in found.reason


def test_move_is_told_where_nothing_can_count() -> None:
    """An invalid measurement and one of too few pairs still say how far the ratio moved."""
    too_few = judge(around(1.25, None, pairs=2), around(1.0, 0.0))
    invalid = judge(around(1.25, 0.0), around(1.0, 0.0), invalid_reasons=["a control read wrong"])
    assert (too_few.move, invalid.move, invalid.move_low) == pytest.approx((0.25, 0.25, 0.25))


def test_exact_measurement_could_have_seen_the_tolerance() -> None:
    """Without noise the smallest slip is the tolerance, whether or not a baseline is stored."""
    slips = [judge(around(1.0, 0.0), baseline).smallest_slip for baseline in (None, around(1.0, 0.0))]
    assert slips == pytest.approx([0.1, 0.1])


def test_nights_that_differ_hide_larger_slips() -> None:
    """1.64 times the spread of nights (here log(1.1) / sqrt(2)), of which tonight is one more beside the mean of 2."""
    found = judge(around(1.0, 0.0), around(1.0, 0.0), TIME, nights=((1.0, 1.0), (1.1, 1.1)))
    hidden = 1.6449 * math.log(1.1) / math.sqrt(2) * math.sqrt(1 + 1 / 2)
    assert found.smallest_slip == pytest.approx(math.expm1(math.log(1.1) + hidden), rel=1e-4)


def test_noisy_baseline_hides_larger_slips() -> None:
    """The slip that could have been seen grows with the baseline's own interval."""
    sure, unsure = (judge(around(1.0, 0.01), around(1.0, half)).smallest_slip for half in (0.0, 0.15))
    assert sure is not None
    assert unsure is not None
    assert unsure > sure


def test_noisy_baseline_widens_the_move() -> None:
    """12% against a sure baseline is a regression; against one that is itself +/-15% it can't be told."""
    verdicts = [judge(around(1.12, 0.01), around(1.0, half)).verdict for half in (None, 0.0, 0.15)]
    assert verdicts == [Verdict.REGRESSED, Verdict.REGRESSED, Verdict.INCONCLUSIVE]


@pytest.mark.parametrize(
    ("thresholds", "move", "half", "warns"),
    [
        (MEMORY, 0.009, 0.0, False),
        (MEMORY, 0.010, 0.0, False),  # exactly the threshold, which binary fractions say is 0.010000000000000009
        (MEMORY, 0.011, 0.0, True),
        (MEMORY, -0.011, 0.0, True),
        (TIME, 0.039, 0.0, False),
        (TIME, 0.041, 0.0, True),
        (TIME, 0.06, 0.07, False),  # t(0.975, 3) is 3.18, so 3 standard errors are 0.066
        (TIME, 0.08, 0.07, True),
    ],
)
def test_drift_warns_within_the_tolerance(thresholds: Thresholds, move: float, half: float, warns: bool) -> None:
    """A pass warns beyond 1% for memory, beyond 4% or 3 standard errors for time, whichever is larger."""
    found = judge(around(1 + move, half), around(1.0, 0.0), thresholds)
    assert (found.verdict, found.warning is not None) == (Verdict.PASS, warns)


def test_only_a_pass_warns() -> None:
    """A verdict that fails says so itself: no drift is mentioned beside it."""
    assert judge(around(1.5, 0.0), around(1.0, 0.0)).warning is None


def test_invalid_gives_every_reason() -> None:
    """INVALID says all that was wrong, and needs no figure."""
    found = judge(None, around(1.0, 0.0), invalid_reasons=["launch 2 has no partner", "no figure in launch 0"])
    assert found.reason == "launch 2 has no partner; no figure in launch 0"


def test_no_figure_without_a_reason_is_a_bug() -> None:
    """A comparison without figures must say why."""
    with pytest.raises(ValueError, match="must say why"):
        judge(None, None)


@pytest.mark.parametrize(("half", "pairs", "words"), [(None, 2, "2 pairs"), (0.1, 4, "too noisy"), (0.09, 4, None)])
def test_lack_of_evidence_names_what_lacks(half: float | None, pairs: int, words: str | None) -> None:
    """Too few pairs and too wide an interval are named; enough evidence is None."""
    said = lack_of_evidence(around(1.0, half, pairs), TIME)
    assert said is None if words is None else words in (said or "")
