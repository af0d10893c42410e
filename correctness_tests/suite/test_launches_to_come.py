"""Property: launches that are not judged are said before the first one, and counted in the time that is left."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from correctness_tests.suite.synthetic import ARMS, Job
from correctness_tests.suite.test_commands import options_of
from correctness_tests.suite.test_time_left import PLAN, Night
from correctness_tests.suite.test_time_limit import job_of
from fixtures import experiment
from fixtures.experiment import LaunchDone, Plan, run
from fixtures.measurements import Measurement, Settings
from fixtures.platforms import Platform
from fixtures.session.job_header import job_header

pytestmark = pytest.mark.cpu

UPDATE = ("--update-baselines", "--reason", "x")


def said_of_launches(*arguments: str) -> str:
    """What the header of a rehearsal of mlp says of its launches, on one line; empty where it says nothing."""
    job = job_of(options_of(["--rehearse", "--workload", "mlp", *arguments]))
    job.workload_reference = "mlp"
    lines = job_header(job, datetime.now(UTC))
    first = [i for i, line in enumerate(lines) if line.startswith("  launches")]
    return " ".join(" ".join(lines[first[0] :]).split()) if first else ""


def test_an_update_says_what_it_launches_beside() -> None:
    """One launch more of each arm, for what explains a later breach; a dry run and a plain session launch none."""
    kept = "12 that are judged; then one of each of ddp, fsdp2, fsdp2-noreshard for what they hold, to be kept"
    assert said_of_launches(*UPDATE) == f"launches {kept} beside the baseline"
    assert said_of_launches(*UPDATE, "--dry-run") == said_of_launches() == ""


def test_profiles_are_said_too() -> None:
    """Both kinds, each with its arms."""
    told = said_of_launches(*UPDATE, "--profile", "on")
    assert "then one of each of ddp, fsdp2, fsdp2-noreshard under the profiler; then one of each of ddp," in told


def test_they_count_in_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of 2 s: with three more to come after nine, the ninth leaves 6 s, and not none."""
    clock, drawn = [0.0], iter(Job().measurements())
    done: list[LaunchDone] = []

    def launch(*of: object) -> Measurement:
        clock[0] += 2.0
        return next(drawn)

    monkeypatch.setattr(experiment, "_launch", launch)
    monkeypatch.setattr(experiment, "machine_lock", lambda on_wait: nullcontext())
    monkeypatch.setattr(experiment, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def left(explained: int) -> list[float]:
        done.clear()
        plan = Plan(Platform.cpu(4), "mlp", 3, Settings(), tuple(ARMS), explained=explained)
        run(plan, on_launch=done.append, on_wait=lambda line: None)
        return [round(one.seconds_left, 6) for one in done][-2:]

    assert (left(3), left(0)) == ([8.0, 6.0], [2.0, 0.0])


def test_each_says_what_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of three launches of about 10 s the first says 30 s, the last 10 s."""
    night = Night(monkeypatch, minutes=None, gone_s=0.0, takes_s=10.0)
    told: list[str] = []
    night.evidence.summarize(PLAN, Job().measurements(), tmp_path, told.append)
    assert told == [
        f"one more launch of {arm}, for evidence alone; about {left} s left"
        for arm, left in (("ddp", 30), ("fsdp2", 20), ("fsdp2-noreshard", 10))
    ]
