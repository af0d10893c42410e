"""The gate's heavy figures, small: the same functions that ``gate_figures.py`` runs at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from correctness_tests.suite.gate_figures import (
    NEW,
    NOISES,
    OLD,
    concurrent_updaters,
    coverage,
    judge_stored,
    killed_updates,
)
from fixtures.gate.baselines import platforms, render

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("pairs", [3, 12])
def test_interval_covers_as_often_as_it_says(noise: str, pairs: int) -> None:
    """Over 1000 nights the 95% interval holds the truth 92.5 to 97.5 times in 100, for normal and heavy-tailed noise.

    93 to 97 is the claim, which the full size checks; the count's standard error at this size is 0.7%.
    """
    assert 0.925 <= coverage(noise, pairs, nights=1000) <= 0.975


def test_no_update_is_lost(tmp_path: Path) -> None:
    """5 processes that each add a case to one file: all 5 are there, and no reader saw a torn file."""
    entries = concurrent_updaters(tmp_path, 5).entries
    assert [f"w{i}/fsdp2:ddp/resident" in entries for i in range(5)] == [True] * 5


def test_killed_update_leaves_a_whole_file(tmp_path: Path) -> None:
    """SIGKILL at a random moment of an update, 5 times: the old file or the new one, and the next update goes on."""
    assert set(killed_updates(tmp_path, 5)) <= {render(OLD), render(NEW)}
    assert platforms(tmp_path) == ["cpu-gloo-4"]


def test_many_stored_cases_are_judged(tmp_path: Path) -> None:
    """12 stored cases of 2 workloads are each judged, and none is lost."""
    assert judge_stored(tmp_path, 12)[0] == 12
