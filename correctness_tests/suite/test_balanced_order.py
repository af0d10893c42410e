"""Launches alternate between arms so that a drift of the machine cancels in a pair's mean difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.experiment import balanced_order
from fixtures.measurements import ARMS

pytestmark = pytest.mark.cpu


def test_two_arms_alternate_as_abba_baab() -> None:
    """Two arms and four launches give A B B A B A A B."""
    assert "".join(arm for arm, _ in balanced_order("AB", 4)) == "ABBABAAB"


@given(launches=st.integers(1, 40))
def test_every_arm_is_launched_as_often(launches: int) -> None:
    """Each arm gets the launches 0 .. launches - 1, in order."""
    order = list(balanced_order(ARMS, launches))
    for arm in ARMS:
        assert [launch for name, launch in order if name == arm] == list(range(launches))


@pytest.mark.parametrize("launches", [2, 4, 6, 8])
def test_linear_drift_cancels(launches: int) -> None:
    """Over an even number of launches, a drift that is linear in time adds the same to every arm's mean."""
    order = [arm for arm, _ in balanced_order(ARMS, launches)]
    sums = {arm: sum(at for at, name in enumerate(order) if name == arm) for arm in ARMS}
    assert len(set(sums.values())) == 1, f"sums of positions over {launches} launches differ: {sums}"
