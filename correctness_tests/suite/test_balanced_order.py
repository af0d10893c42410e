"""Launches alternate between arms so that a drift of the machine cancels in a pair's mean difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.experiment import balanced_order
from fixtures.measurements import ALONE, ARMS, JOB_ARMS

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


@given(launches=st.integers(3, 40), more=st.integers(0, 40))
def test_the_arm_alone_is_launched_three_times(launches: int, more: int) -> None:
    """Whatever the number of launches, and beyond it: three, the first in round 0, spread over the sure ones."""
    rounds = [launch for arm, launch in balanced_order(JOB_ARMS, launches + more, launches) if arm == ALONE]
    assert (len(rounds), rounds[0]) == (3, 0)
    gaps = [after - before for before, after in zip(rounds, [*rounds[1:], launches], strict=True)]
    assert max(gaps) - min(gaps) <= 1, rounds


def test_the_arm_alone_is_launched_beside_ddp() -> None:
    """The two steps whose difference is an account follow one another in every round that has both."""
    order = list(balanced_order(JOB_ARMS, 6, 6))
    beside = [abs(order.index((ALONE, launch)) - order.index(("ddp", launch))) for launch in (0, 2, 4)]
    assert (beside, len(order)) == ([1, 1, 1], 6 * (len(JOB_ARMS) - 1) + 3)


@pytest.mark.parametrize("launches", [2, 4, 6, 8])
def test_linear_drift_cancels(launches: int) -> None:
    """Over an even number of launches, a drift that is linear in time adds the same to every arm's mean."""
    order = [arm for arm, _ in balanced_order(ARMS, launches)]
    sums = {arm: sum(at for at, name in enumerate(order) if name == arm) for arm in ARMS}
    assert len(set(sums.values())) == 1, f"sums of positions over {launches} launches differ: {sums}"
