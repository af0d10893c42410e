"""Change points: a shift that stays is found, dated and put down to what changed; noise and wild nights are not."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.history_figures import NOISES, QUIET, false_alarms, found
from correctness_tests.suite.nights import drifting, template
from fixtures.errors import UsageError
from fixtures.gate.entries import StoredStack
from fixtures.history.changes import FEWEST, changes, cuts, recent_shifts, sentence

pytestmark = pytest.mark.cpu

OLD = template().stack.model_copy(update={"nccl": "2.27.5"})
NEW = OLD.model_copy(update={"nccl": "2.28.3"})


def logs(*levels: tuple[int, float], sd: float = 0.0, seed: int = 1) -> list[float]:
    """Log ratios: so many nights at each level, a fraction, with noise."""
    rng = np.random.default_rng(seed)
    return [math.log1p(level) + rng.normal(0.0, sd) for nights, level in levels for _ in range(nights)]


def test_a_shift_reads_as_written_here() -> None:
    """What shifted, by how much, when, and what changed that night."""
    nights = drifting(logs((30, 0.0), (12, 0.04)), {0: OLD, 30: NEW})
    (change,) = changes(nights)
    assert sentence(change) == (
        "gpt2-rehearsal: fsdp2/ddp step time shifted +4.0% on 31 January 2026, when NCCL changed (2.27.5 -> 2.28.3)"
    )
    assert (change.before, change.after) == (30, 12)


def test_every_change_of_the_stack_is_named() -> None:
    """An upgrade of torch brings its own CUDA and NCCL."""
    torch = NEW.model_copy(update={"torch": "2.14.1"})
    (change,) = changes(drifting(logs((20, 0.0), (10, -0.05)), {0: OLD, 20: torch}))
    assert sentence(change).endswith("when torch changed (2.13.0 -> 2.14.1) and NCCL changed (2.27.5 -> 2.28.3)")
    assert change.shift == pytest.approx(-0.05)


def test_where_the_stack_stayed_the_commit_is_named() -> None:
    """Without an upgrade, the two commits between which it happened."""
    (change,) = changes(drifting(logs((20, 0.0), (10, 0.05))))
    assert sentence(change).endswith("when the commit changed (000000000013 -> 000000000014)")


def test_a_shift_out_of_nowhere_is_said_to_be_one() -> None:
    """The same code and stack on both sides: something else changed, and the sentence does not guess."""
    nights = [night.model_copy(update={"commit": "abc"}) for night in drifting(logs((20, 0.0), (10, 0.05)))]
    (change,) = changes(nights)
    assert sentence(change).endswith("neither stack nor commit changed that night")


@pytest.mark.parametrize("off", [-1, 1])
def test_noise_does_not_hide_the_cause(off: int) -> None:
    """Where noise puts the shift a night beside the upgrade and can't tell the two, the upgrade's night is named."""
    values = logs((30, 0.0), (12, 0.04), sd=0.01)
    values[29 if off < 0 else 30] = math.log1p(0.023 if off < 0 else 0.017)
    nights = drifting(values, {0: OLD, 30: NEW})
    (change,) = changes(nights)
    assert change.night == nights[30]


def test_a_far_upgrade_is_not_blamed() -> None:
    """An upgrade ten nights before the shift did not cause it."""
    nights = drifting(logs((30, 0.0), (12, 0.05), sd=0.005), {0: OLD, 20: NEW})
    (change,) = changes(nights)
    assert "NCCL" not in sentence(change)


def test_two_shifts_are_two() -> None:
    """Up and, weeks later, back: both are told, oldest first."""
    found = changes(drifting(logs((30, 0.0), (20, 0.05), (20, 0.0), sd=0.005)))
    assert [round(change.shift, 2) for change in found] == [0.05, -0.05]


@pytest.mark.parametrize("wild", [1, 2])
def test_wild_nights_are_no_shift(wild: int) -> None:
    """A night or two far off, and back: nothing stayed."""
    values = logs((30, 0.0), (wild, 0.3), (10, 0.0), sd=0.01)
    assert changes(drifting(values)) == []


def test_memory_shifts_are_seen_to_a_fraction_of_a_percent() -> None:
    """Bytes repeat: half a percent that stays three nights is a shift."""
    (change,) = changes(drifting(logs((10, 0.0), (3, 0.005)), metric="resident"))
    assert change.shift == pytest.approx(0.005)


@given(st.lists(st.floats(-50, 50), max_size=60))
def test_any_series_is_cut_or_left(values: list[float]) -> None:
    """No series of finite figures fails; cuts lie inside it, in order; too few nights say nothing."""
    found = cuts(np.array(values))
    assert found == sorted(set(found))
    assert all(0 < cut < len(values) for cut in found)
    assert len(values) >= FEWEST or not found


@pytest.mark.parametrize("noise", NOISES)
def test_a_shift_of_four_percent_is_found_within_a_week(noise: str) -> None:
    """On a quiet machine (1.15% a night), 9 times in 10 and more, where it was."""
    assert found(noise, QUIET, 0.04, after=7, tries=100) >= 0.9


def test_nothing_is_seldom_called_a_shift() -> None:
    """Somebody who looks every morning of four quiet years hears of a metric less than once in two years."""
    assert false_alarms("normal", QUIET, years=4) <= 0.5


def test_only_recent_shifts_of_what_is_gated_are_news() -> None:
    """A shift of two months ago is no news, one of last week is; one of a time that is only shown is none."""
    nights = drifting(logs((30, 0.0), (60, 0.05), (10, 0.10), sd=0.002))
    assert len(changes(nights)) == 2
    (line,) = recent_shifts(nights)
    assert "on 1 April 2026" in line
    shown = [c.model_copy(update={"gated": False}) for night in nights for c in night.comparisons]
    assert recent_shifts([n.model_copy(update={"comparisons": (c,)}) for n, c in zip(nights, shown, strict=True)]) == []


def test_other_platforms_do_not_mix() -> None:
    """Half of the nights on another machine, 30% slower, are no shift of this one."""
    here = drifting(logs((20, 0.0)))
    there = [n.model_copy(update={"platform": "cpu-gloo-2"}) for n in drifting(logs((20, 0.3)))]
    mixed = [night for pair in zip(here, there, strict=True) for night in pair]
    assert changes(mixed) == []
    assert changes(here[:10] + [n.model_copy(update={"platform": here[0].platform}) for n in there[10:]]) != []


def test_without_ruptures_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(UsageError, match=r"pip install -e \.\[history\]"):
        changes(drifting(logs((20, 0.0))))


def test_unknown_parts_of_a_stack_are_no_change() -> None:
    """A stack that was not known before its night can't be said to have changed."""
    nights = drifting(logs((20, 0.0), (10, 0.05)), {0: StoredStack(), 20: StoredStack(torch="2.14.1")})
    assert sentence(changes(nights)[0]).endswith("when the commit changed (000000000013 -> 000000000014)")
