"""The estimate of a nightly is the sum of its terms, and says when it would be too long."""

from __future__ import annotations

import pytest

from perf_tests.estimate import BOUND_S, STEP_MS, main, starts, terms

pytestmark = pytest.mark.cpu


def test_steps_are_the_published_ones() -> None:
    """6 launches of 23 steps of each arm at 477, 338 and 273.3 ms."""
    assert pytest.approx({"ddp": 477.0, "fsdp2": 338.0, "fsdp2-noreshard": 273.3}) == STEP_MS
    assert terms(6, 0.0)["6 x 23 steps of ddp"] == pytest.approx(6 * 23 * 0.477)


def test_a_night_is_under_a_quarter_of_an_hour(capsys: pytest.CaptureFixture[str]) -> None:
    """With the default start-up it exits 0, and the start-up that it leaves room for is just inside the bound."""
    assert main([]) == 0
    room = float(capsys.readouterr().out.split("A start of up to ")[1].split()[0])
    assert sum(terms(6, room - 1).values()) < BOUND_S < sum(terms(6, room + 1).values())


def test_a_slow_start_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    """A start-up of 40 s makes it longer than the bound: exit status 1."""
    assert (main(["--startup-s", "40"]), starts(6)) == (1, 22)
    assert "15 minutes" in capsys.readouterr().out
