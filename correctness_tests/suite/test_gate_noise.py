"""How much launches and nights differ is read right, and the smallest slip that a verdict could see is the one seen."""

from __future__ import annotations

import math
import random

import pytest

from fixtures.gate.noise import noise_of, smallest_slip
from fixtures.gate.statistics import RatioEstimate, paired_ratio

pytestmark = pytest.mark.cpu


def test_noise_is_read_from_stored_launches() -> None:
    """Over 400 nights of 6, the analysis of variance returns what was drawn: within nights to 5%, between to 15%."""
    draw = random.Random(1)
    nights = []
    for _ in range(400):
        night = draw.gauss(0, 0.03)
        nights.append([math.exp(night + draw.gauss(0, 0.05)) for _ in range(6)])
    found = noise_of(nights)
    assert found.launch_sd == pytest.approx(0.05, rel=0.05)
    assert found.night_sd == pytest.approx(0.03, rel=0.15)


def test_noise_of_unequal_nights_is_the_one_worked_out_by_hand() -> None:
    """Nights of 2, 3 and 4 pairs: sums of squares 0.07 within (6 degrees) and 0.19222 between (2), size 2.8889."""
    logs = [[0.0, 0.2], [0.4, 0.6, 0.5], [0.3, 0.3, 0.3, 0.5]]
    found = noise_of([[math.exp(x) for x in night] for night in logs])
    assert found.launch_sd == pytest.approx(math.sqrt(0.07 / 6))
    assert found.night_sd == pytest.approx(math.sqrt((0.1922222 / 2 - 0.07 / 6) / 2.8888889), rel=1e-6)


def test_nights_that_their_pairs_explain_do_not_differ() -> None:
    """Means closer than the pairs' own spread makes likely, and a single night, say nothing of nights: 0."""
    wide = [[math.exp(x) for x in (-0.2, 0.2)], [math.exp(x) for x in (-0.19, 0.21)]]
    assert [noise_of(nights).night_sd for nights in (wide, wide[:1])] == [0.0, 0.0]
    assert noise_of(wide[:1]).launch_sd == pytest.approx(math.sqrt(0.08))


def test_nights_of_one_pair_have_no_known_noise() -> None:
    """Without a night of two pairs the noise can't be read, and the smallest slip is told as if there were none."""
    with pytest.raises(ValueError, match="2 pairs over 2 nights: no night has two"):
        noise_of([[1.0], [1.5]])
    estimate = paired_ratio([1.0, 1.01, 1.02, 1.0], [1.0] * 4)
    alone = smallest_slip(estimate, None, 0.10)
    assert alone is not None
    assert smallest_slip(estimate, None, 0.10, nights=[[1.0], [1.5]]) == alone


def test_noise_beyond_the_tolerance_moves_the_smallest_slip() -> None:
    """Where both intervals together reach beyond 10%, they bound the slip: half-widths and errors as a hypotenuse."""
    wide = RatioEstimate(ratio=1.0, low=math.exp(-0.3), high=math.exp(0.3), pairs=4)
    wider = RatioEstimate(ratio=1.0, low=math.exp(-0.4), high=math.exp(0.4), pairs=4)
    expected = 0.5 + 1.6448536 * 0.5 / 3.1824463  # 0.3 and 0.4 make 0.5; t(0.975, 3)
    assert smallest_slip(wide, wider, 0.10) == pytest.approx(math.expm1(expected), rel=1e-6)
    assert smallest_slip(RatioEstimate(ratio=1.0, pairs=2), wider, 0.10) is None


def test_an_interval_of_unknown_launches_tells_no_slip() -> None:
    """Without the number of pairs there is no standard error, and so no slip that it would have seen."""
    published = RatioEstimate(ratio=1.0, low=0.9, high=1.1, pairs=4).model_copy(update={"pairs": None})
    assert smallest_slip(published, None, 0.10) is None


def test_smallest_slip_is_the_one_caught() -> None:
    """What a verdict says it could see is seen 95 times in 100 by nights of that noise, within 3 in 100."""
    draw = random.Random(4)
    baseline = paired_ratio([math.exp(draw.gauss(0, 0.02)) for _ in range(30)], [1.0] * 30)
    said, caught, truth = [], 0, 1.1 * math.exp(1.645 * 0.02 / math.sqrt(6)) * baseline.ratio
    for _ in range(1000):
        night = paired_ratio([truth * math.exp(draw.gauss(0, 0.02)) for _ in range(6)], [1.0] * 6)
        said.append(smallest_slip(night, None, 0.10) or 0)
        caught += night.ratio / baseline.ratio - 1 > 0.10 and (night.low or 0) > baseline.ratio
    assert caught / 1000 == pytest.approx(0.95, abs=0.03)
    assert sorted(said)[500] == pytest.approx(1.1 * math.exp(1.645 * 0.02 / math.sqrt(6)) - 1, abs=0.003)
