"""The paired ratio and its interval do what their algebra promises."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.gate.statistics import RatioEstimate, paired_ratio, standard_error

pytestmark = pytest.mark.cpu

figures = st.floats(min_value=1e-3, max_value=1e6)
pair_lists = st.lists(st.tuples(figures, figures), min_size=1, max_size=12)


def estimate(pairs: list[tuple[float, float]]) -> RatioEstimate:
    """The ratio of pairs (numerator, denominator)."""
    return paired_ratio([top for top, _ in pairs], [bottom for _, bottom in pairs])


def ends(found: RatioEstimate) -> list[float]:
    """Low, ratio, high; the ratio alone where there is no interval."""
    return [found.low, found.ratio, found.high] if found.low and found.high else [found.ratio]


@given(pair_lists)
def test_ratio_is_the_geometric_mean_of_pairs(pairs: list[tuple[float, float]]) -> None:
    """The estimate is exp of the mean log ratio."""
    expected = math.exp(sum(math.log(top / bottom) for top, bottom in pairs) / len(pairs))
    assert estimate(pairs).ratio == pytest.approx(expected, rel=1e-9)


@given(pair_lists, st.floats(min_value=1e-3, max_value=1e3))
def test_units_do_not_matter(pairs: list[tuple[float, float]], scale: float) -> None:
    """Scaling both arms of every pair changes neither ratio nor interval."""
    scaled = [(top * scale, bottom * scale) for top, bottom in pairs]
    assert ends(estimate(scaled)) == pytest.approx(ends(estimate(pairs)), rel=1e-6)


@given(pair_lists)
def test_swapping_the_arms_inverts(pairs: list[tuple[float, float]]) -> None:
    """Denominator over numerator has the inverse ratio and the inverse interval, ends swapped."""
    swapped = estimate([(bottom, top) for top, bottom in pairs])
    assert [1 / end for end in reversed(ends(swapped))] == pytest.approx(ends(estimate(pairs)), rel=1e-6)


@given(pair_lists, st.integers())
def test_order_of_pairs_does_not_matter(pairs: list[tuple[float, float]], seed: int) -> None:
    """Pairs in another order give the same ratio and the same interval, bootstrap included."""
    shuffled = random.Random(seed).sample(pairs, len(pairs))
    assert ends(estimate(shuffled)) == pytest.approx(ends(estimate(pairs)), rel=1e-9)


@given(st.lists(st.tuples(figures, figures), min_size=3, max_size=12))
def test_interval_holds_the_ratio(pairs: list[tuple[float, float]]) -> None:
    """From 3 pairs up there is an interval, and the ratio lies in it."""
    found = estimate(pairs)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.ratio <= found.high


@pytest.mark.parametrize("tops", [[1.0], [1.0, 1.0], [1.0, 1.5]])
def test_too_few_pairs_have_no_interval(tops: list[float]) -> None:
    """Below 3 pairs the interval is unknown, not narrow: whether they agree exactly or not."""
    found = paired_ratio(tops, [2.0] * len(tops))
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(("confidence", "t"), [(0.95, 4.302653), (0.99, 9.924843)])
def test_a_surer_interval_is_wider_and_says_so(confidence: float, t: float) -> None:
    """The confidence that is asked for is the t interval's, and stands beside it; also where all pairs agree."""
    found = paired_ratio([math.exp(x) for x in (-0.01, 0.0, 0.01)], [1.0] * 3, confidence)
    assert found.high == pytest.approx(math.exp(t * 0.01 / math.sqrt(3)), rel=1e-6)
    assert found.confidence == paired_ratio([1.0] * 3, [1.0] * 3, confidence).confidence == confidence


def test_identical_pairs_have_an_interval_of_no_width() -> None:
    """Bytes that read the same in every launch leave no doubt, to the last bit."""
    found = paired_ratio([4_876_543] * 4, [45_678_901] * 4)
    assert found.low == found.ratio == found.high == 4_876_543 / 45_678_901


def test_interval_is_students_t_for_few_pairs() -> None:
    """At 3 pairs the t interval is the wider one: mean +/- t(0.975, 2) * s / sqrt(3), t from a printed table."""
    logs = [0.01, 0.02, 0.06]
    mean, deviation = 0.03, math.sqrt(sum((x - 0.03) ** 2 for x in logs) / 2)
    found = paired_ratio([math.exp(x) for x in logs], [1.0] * 3)
    half = 4.302653 * deviation / math.sqrt(3)
    assert [found.low, found.high] == pytest.approx([math.exp(mean - half), math.exp(mean + half)], rel=1e-6)


DRAW = random.Random(3)
SKEWED_LOGS = [1.0 + i / 50 for i in range(5)] + [DRAW.gauss(0, 1e-4) for _ in range(395)]
SKEWED = [(math.exp(log), 1.0) for log in SKEWED_LOGS]
"""5 slow launches of 400: so skewed that the bootstrap's interval is wider than Student's."""


def test_wider_interval_is_kept_where_the_bootstrap_is_wider() -> None:
    """Skewed noise gets the bootstrap's interval, not the narrower one of Student's t."""
    mean = sum(SKEWED_LOGS) / 400
    deviation = math.sqrt(sum((log - mean) ** 2 for log in SKEWED_LOGS) / 399)
    student = 2 * 1.965927 * deviation / math.sqrt(400)  # t(0.975, 399)
    found = estimate(SKEWED)
    assert found.low is not None
    assert found.high is not None
    assert math.log(found.high / found.low) > student * 1.005


def test_bootstrap_draws_the_same_resamples_for_good() -> None:
    """A stored result is judged to the same figures on every machine and in every year: these, of December 2026."""
    assert ends(estimate(SKEWED)) == pytest.approx(
        [1.002589490686118, 1.013077621511176, 1.0260311454636508], rel=1e-12
    )


def test_bootstrap_is_blind_to_the_order_of_pairs() -> None:
    """Where the bootstrap decides, shuffled pairs give the same interval too."""
    assert ends(estimate(random.Random(1).sample(SKEWED, 400))) == pytest.approx(ends(estimate(SKEWED)), rel=1e-12)


def test_bootstrap_is_inverted_by_swapping_the_arms() -> None:
    """Where the bootstrap decides, swapped arms give the inverse interval too."""
    swapped = estimate([(bottom, top) for top, bottom in SKEWED])
    assert [1 / end for end in reversed(ends(swapped))] == pytest.approx(ends(estimate(SKEWED)), rel=1e-12)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Over 2000 nights of 4 pairs with 2% normal noise, 95% intervals hold the true ratio 93 to 97 times in 100.

    The standard error of the count is 0.5%, so a sound interval strays this far for 1 seed in 15,000; ours is fixed.
    """
    draw = random.Random(7)
    held = 0
    for _ in range(2000):
        found = paired_ratio([math.exp(draw.gauss(0, 0.02)) for _ in range(4)], [1.0] * 4)
        held += found.low is not None and found.high is not None and found.low <= 1 <= found.high
    assert 0.93 <= held / 2000 <= 0.97


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, 0, -1.0, 1e200, 10**5000], ids=["nan", "inf", "zero", "negative", "huge", "int"]
)
def test_impossible_figure_is_named(bad: float) -> None:
    """NaN, zero, negative and absurd figures raise, and say which pair of which arm held them."""
    with pytest.raises(ValueError, match=r"denominator of pair 1 is .*must be a positive finite number"):
        paired_ratio([1.0, 1.0, 1.0], [1.0, bad, 1.0])


def test_the_largest_and_the_smallest_figure_count() -> None:
    """1e100 and its inverse are figures still, and their ratio is finite."""
    assert paired_ratio([1e100], [1 / 1e100]).ratio == pytest.approx(1e200)


def test_unequal_lengths_are_named() -> None:
    """Launches without a partner are an error, never cut off."""
    with pytest.raises(ValueError, match="3 numerators for 2 denominators"):
        paired_ratio([1.0, 1.0, 1.0], [1.0, 1.0])


def test_no_pairs_is_an_error() -> None:
    """A ratio of nothing has no value."""
    with pytest.raises(ValueError, match="0 pairs"):
        paired_ratio([], [])


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-1.0, "-1.0"), (-(10**38), f"-1{'0' * 38}"), (-(10**39), f"-1{'0' * 35}..."), (10**5000, "a huge number")],
    ids=["short", "forty characters", "longer", "endless"],
)
def test_impossible_figure_is_shown_in_forty_characters(value: float, shown: str) -> None:
    """The figure itself stands in the message, cut off where it would fill the screen."""
    with pytest.raises(ValueError, match="numerator of pair 0") as caught:
        paired_ratio([value], [1.0])
    assert str(caught.value) == f"numerator of pair 0 is {shown}: must be a positive finite number"


@dataclass
class Published:
    """An interval of +/-1% that others published."""

    pairs: int | None
    confidence: float | None = None
    ratio: float = 1.0
    low: float | None = math.exp(-0.01)
    high: float | None = math.exp(0.01)


@pytest.mark.parametrize(
    ("interval", "t"),
    [
        (Published(4), 3.182446),
        (Published(4, 0.95), 3.182446),
        (Published(4, 0.90), 2.353363),
        (Published(2), 12.706205),
    ],
)
def test_standard_error_is_the_half_width_over_t(interval: Published, t: float) -> None:
    """With t of a printed table: 0.95 where no confidence is said; two pairs have one degree of freedom."""
    assert standard_error(interval) == pytest.approx(0.01 / t, rel=1e-6)


@pytest.mark.parametrize("interval", [Published(None), Published(1), Published(4, low=None, high=None)])
def test_standard_error_is_not_known_without_pairs_or_ends(interval: Published) -> None:
    """An interval over an unknown number of pairs, over one, or without ends, stands for no standard error."""
    assert standard_error(interval) is None
