"""The estimate of a nightly is the sum of its terms, and says when it would be too long."""

from __future__ import annotations

import pytest

from perf_tests.estimate import BOUND_S, STARTUP_S, STEP_MS, extra_terms, main, starts, terms

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


def test_the_arms_that_come_on_top_are_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """FSDP1 is started seven times, the arm alone three; with them a night of default start-up keeps the bound."""
    start = sum(STARTUP_S.values())
    assert list(extra_terms(6, start).values()) == [
        pytest.approx(7 * (start + 23 * 0.338)),
        pytest.approx(3 * (start + 23 * 0.153)),
    ]
    together = sum({**terms(6, start), **extra_terms(6, start)}.values())
    assert together < BOUND_S
    assert main([]) == 0
    assert f"{together:.1f} s = {together / 60:.1f} min" in capsys.readouterr().out
