"""Whether a round of launches still fits into ``--max-minutes``, from what each arm's launches took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from correctness_tests.suite.synthetic import Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.comparisons import compare
from fixtures.gate.time_limit import TimeLeft, TimeLimit, undecided_because
from fixtures.gate.verdicts import Judgement, Verdict

pytestmark = pytest.mark.cpu


def limit(taken: dict[str, list[float]], minutes: float | None = 1.0) -> TimeLimit:
    """A limit that was told what each arm's launches took."""
    made = TimeLimit(minutes)
    for arm, seconds in taken.items():
        for each in seconds:
            made.note(arm, each)
    return made


@pytest.mark.parametrize(
    ("taken", "seconds"),
    [
        ({}, 0.0),
        ({"ddp": [30.0]}, 60.0),  # all that is known, and the other arm may take as long
        ({"ddp": [30.0], "fsdp2": [4.0]}, 8.0),  # the first also started what all are forked from
        ({"ddp": [3.0], "fsdp2": [4.0]}, 7.0),
        ({"ddp": [30.0, 3.0], "fsdp2": [4.0, 5.0]}, 35.0),  # twice seen: it is slow by itself
        ({"ddp": [30.0, 3.0, 2.0], "fsdp2": [9.0, 5.0, 4.0]}, 8.0),
    ],
)
def test_a_round_takes_what_each_arm_last_took(taken: dict[str, list[float]], seconds: float) -> None:
    """The longer of an arm's last two launches; an arm that is not known counts as the longest that is."""
    assert limit(taken).estimate_s(["ddp", "fsdp2"]) == seconds


@pytest.mark.parametrize(("elapsed", "rounds", "allowed"), [(110.0, 2, True), (111.0, 2, False), (100.0, 1, True)])
def test_a_round_may_end_when_the_time_does(elapsed: float, rounds: int, allowed: bool) -> None:
    """Rounds of 10 s: one fits into the last 10 of 120 s; after the first, the two that a verdict still needs."""
    assert limit({"ddp": [5.0, 5.0], "fsdp2": [5.0]}, minutes=2.0).allows(elapsed, ["ddp", "fsdp2"], rounds) is allowed


def test_the_two_that_a_verdict_needs_must_fit() -> None:
    """After one round, at 41 of 60 s, the second would fit and the third would not: no use to begin."""
    with pytest.raises(UsageError, match=r"and those would take 1 minutes"):
        limit({"ddp": [5.0, 5.0], "fsdp2": [5.0]}).allows(41.0, ["ddp", "fsdp2"], 1)


def test_without_a_limit_there_is_always_time() -> None:
    """None is as long as it takes."""
    assert limit({"ddp": [1e9]}, minutes=None).allows(1e12, ["ddp"], 0) is True


def test_only_the_undecided_get_the_reason() -> None:
    """What was decided keeps its reason; without a reason nothing changes."""
    decided = compare(Job().measurements(), accepted(Job()), gate_times=True)
    undecided = [
        c.model_copy(update={"judgement": Judgement(verdict=Verdict.INCONCLUSIVE, reason="why")}) for c in decided
    ]
    assert undecided_because(decided, "time was over") == decided
    assert undecided_because(undecided, "") == undecided
    assert {c.judgement.reason for c in undecided_because(undecided, "time was over")} == {"why; time was over"}


def test_the_reason_to_end_names_what_a_round_takes() -> None:
    """The limit, how far it came, and one more round in minutes."""
    assert limit({"ddp": [45.0], "fsdp2": [30.0]}, minutes=2.5).why(["ddp", "fsdp2"], 3, 6) == (
        "--max-minutes 2.5 ended the job after 3 of at most 6 launches of each arm; one more of each would take about "
        "1 minutes"
    )


@pytest.mark.parametrize(
    ("rounds", "words"), [(0, "even the first would take 1e+02 minutes"), (1, "those would take 2e+02 minutes")]
)
def test_too_short_says_what_it_would_take(rounds: int, words: str) -> None:
    """What went by and what is needed, in minutes."""
    with pytest.raises(UsageError) as caught:
        limit({"ddp": [5998.0]}).allows(2.0, ["ddp"], rounds)
    assert words in str(caught.value)


def test_a_launch_that_explains_takes_what_is_left() -> None:
    """Two minutes of which 30 s went by leave 90; the longest of these launches is what the next one may take."""
    clock = SimpleNamespace(now_s=1030.0)
    left = TimeLeft(limit({"ddp": [5.0], "fsdp2": [7.0]}, minutes=2.0), 1000.0, lambda: float(clock.now_s))
    with left.launch("ddp") as left_s:
        clock.now_s += 40.0
    with left.launch("fsdp2") as later_s:
        clock.now_s += 11.0
    assert (left_s, later_s, left.longest_s) == (90.0, 50.0, 40.0)
    with pytest.raises(UsageError) as caught, left.launch("ddp"):
        pass
    assert str(caught.value) == "of --max-minutes 2 there are 0.65 left, and one more launch of ddp takes about 0.67"


@pytest.mark.parametrize(("gone", "fits"), [(53.0, True), (53.5, False), (99.0, False)])
def test_a_launch_that_explains_may_end_when_the_time_does(gone: float, fits: bool) -> None:
    """It is expected to take as long as that arm's last launch; of time that is over nothing is left."""
    left = TimeLeft(limit({"ddp": [90.0], "fsdp2": [7.0, 7.0]}), 0.0, lambda: gone)
    if fits:
        with left.launch("fsdp2") as left_s:
            assert left_s == 7.0
        return
    with pytest.raises(UsageError) as caught, left.launch("fsdp2"):
        pass
    there = 0.11 if gone < 60 else 0
    assert (
        str(caught.value) == f"of --max-minutes 1 there are {there} left, and one more launch of fsdp2 takes about 0.12"
    )
