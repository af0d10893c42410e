"""Property: ``--max-minutes`` bounds the launches that explain too: skipped or cut, with a line that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from correctness_tests.suite.synthetic import ARMS, Job, accepted
from correctness_tests.suite.test_commands import options_of
from correctness_tests.suite.test_time_limit import job_of, timed_run
from fixtures.experiment import Outcome, Plan
from fixtures.gate.comparisons import compare
from fixtures.gate.holdings import Holdings
from fixtures.gate.time_limit import TimeLeft, TimeLimit
from fixtures.inspection import Inspected
from fixtures.measurements import Settings
from fixtures.platforms import Platform
from fixtures.session import evidence
from fixtures.session.evidence import Evidence
from fixtures.timelines import Timeline

pytestmark = pytest.mark.cpu

PLAN = Plan(Platform.cpu(2), "mlp", launches=3, settings=Settings())


class Night:
    """A job of so many minutes, of which so many seconds have gone by; each launch that explains takes ``takes_s``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, minutes: float | None, gone_s: float, takes_s: float) -> None:
        self.now_s, self.takes_s = 5000.0 + gone_s, takes_s
        self.launched: list[str] = []
        self.deadlines: list[float] = []
        self.waited: Callable[[], None] = lambda: None
        limit = TimeLimit(minutes)
        for arm in ("ddp", "fsdp2"):
            limit.note(arm, 10.0)
        self.evidence = Evidence(time_left=TimeLeft(limit, 5000.0, lambda: self.now_s))
        monkeypatch.setattr("fixtures.ranks.pool.RankPool", self.pool)
        monkeypatch.setattr("fixtures.experiment.machine_lock", self.lock)
        monkeypatch.setattr(evidence, "slices_of", lambda trace: [])
        monkeypatch.setattr(
            evidence, "timeline_of", lambda arm, slices: Timeline(strategy=arm, source="profiled", spans=())
        )

    @contextmanager
    def lock(self, say: object) -> Iterator[None]:
        """The machine's lock, once another job gave it back."""
        self.waited()
        yield

    @contextmanager
    def pool(self, platform: Platform, deadline_s: float, rank_patch: str | None) -> Iterator[Any]:
        """A pool whose jobs take their time."""
        self.deadlines.append(deadline_s)
        yield SimpleNamespace(run=self.run)

    def run(self, job: Callable[..., Any], arm: Any) -> list[Any]:
        """One launch."""
        self.launched.append(arm.strategy)
        self.now_s += self.takes_s
        return [b"trace"] if job.__name__ == "profile_arm" else [Inspected(Holdings(resident={"x": 1}, peak={"x": 1}))]

    def profile(self) -> None:
        """Profile both arms."""
        self.evidence.profile(PLAN, ["ddp", "fsdp2"], None, lambda line: None)


def test_profiles_that_would_end_after_it_are_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """65 of 90 s are gone and a launch takes 10 s: the first profile took 20 s, so there is no time for the second."""
    night = Night(monkeypatch, minutes=1.5, gone_s=65.0, takes_s=20.0)
    night.profile()
    assert night.launched == ["ddp"]
    assert night.now_s - 5000.0 <= 90
    assert night.evidence.notes[-1] == (
        "no profile of fsdp2, which costs no verdict: of --max-minutes 1.5 there are 0.083 left, and one more "
        "launch of fsdp2 takes about 0.33"
    )


def test_evidence_of_a_breach_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A breach is judged as ever; the launches that would explain it are left out, with a line for each arm."""
    night = Night(monkeypatch, minutes=1.0, gone_s=55.0, takes_s=10.0)
    slow = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=1.3)})
    broken = [c for c in compare(slow.measurements(), accepted(), gate_times=False) if c.fails]
    night.evidence.gather(PLAN, broken, tmp_path, None, lambda line: None)
    assert (night.launched, night.evidence.lines) == ([], {})
    assert night.evidence.notes[0].startswith("no evidence of fsdp2, which costs no verdict: of --max-minutes 1 there")


def test_the_summary_of_a_new_baseline_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An update at the end of the time is granted, and leaves no summary."""
    night = Night(monkeypatch, minutes=1.0, gone_s=59.0, takes_s=10.0)
    night.evidence.summarize(PLAN, Job().measurements(), tmp_path, lambda line: None)
    assert (night.launched, list(tmp_path.iterdir())) == ([], [])
    assert "no summary of the new baseline, which costs no verdict: of --max-minutes 1" in night.evidence.notes[0]


def test_one_that_hangs_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks get no longer without progress than what is left, and never longer than a launch gets."""
    night = Night(monkeypatch, minutes=2.0, gone_s=50.0, takes_s=10.0)
    night.profile()
    assert night.deadlines == [70.0, 60.0]
    unbounded = Night(monkeypatch, minutes=None, gone_s=50.0, takes_s=10.0)
    unbounded.profile()
    assert unbounded.deadlines == [PLAN.deadline_s] * 2
    assert unbounded.launched == ["ddp", "fsdp2"]


def test_a_wait_for_the_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another job held the machine until the time was over, nothing is launched."""
    night = Night(monkeypatch, minutes=2.0, gone_s=50.0, takes_s=10.0)

    def wait() -> None:
        night.now_s += 100.0

    night.waited = wait
    night.profile()
    assert night.launched == []


def test_a_job_hands_its_clock_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a job took counts: three rounds of 10 s in one of 35 s leave 5 s, too few for a launch of 5.1 s."""
    outcome, ended = timed_run(monkeypatch, 35 / 60, lambda arm, _: {"ddp": 2.0, "fsdp2": 2.9}.get(arm, 5.1))
    assert ended == pytest.approx(30.0)
    assert outcome.time_left is not None
    with outcome.time_left.launch("ddp") as left_s:
        assert left_s == pytest.approx(5.0)
    with pytest.raises(Exception, match="and one more launch of fsdp2-noreshard takes about"):
        outcome.time_left.launch("fsdp2-noreshard").__enter__()


def test_a_session_bounds_what_follows_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the launches that were judged is that of the launches that explain them."""
    left = TimeLeft(TimeLimit(1.0), 0.0, lambda: 0.0)
    monkeypatch.setattr("fixtures.experiment.run", lambda *args, **kwargs: Outcome(time_left=left))
    job = job_of(options_of(["--rehearse", "--workload", "mlp", "--history", "off"]))
    job.workload_reference = "mlp"
    assert job.measurements == []
    assert job.evidence.time_left is left
