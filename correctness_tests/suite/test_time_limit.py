"""``--max-minutes`` bounds a job: whole rounds only, three at least or a clear error, the undecided stays so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from correctness_tests.suite.judging import Judge, judge
from correctness_tests.suite.synthetic import ARMS, Job, accepted
from correctness_tests.suite.test_commands import options_of
from fixtures import experiment
from fixtures.errors import UsageError
from fixtures.experiment import Outcome, Plan, run
from fixtures.measurements import Measurement, Settings
from fixtures.options import Options
from fixtures.platforms import Platform
from fixtures.ranks.failures import FailureKind, RankFailure, RanksFailedError
from fixtures.report.terminal import JobSummary
from fixtures.session.job import Job as MeasuredJob

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

Taken = Callable[[str, int], float]


def timed_run(
    monkeypatch: pytest.MonkeyPatch, minutes: float, taken: Taken, launches: int = 6, fails: Sequence[str] = ()
) -> tuple[Outcome, float]:
    """A job of three arms whose launches take ``taken(arm, launch)`` seconds, and when its last one ended."""
    clock = SimpleNamespace(now=1000.0)
    drawn = iter(Job(launches=20).measurements())

    def launch(plan: Plan, strategy: str, launch: int, order: int, watch: object) -> Measurement:
        clock.now += taken(strategy, launch)
        if strategy in fails:
            failure = RankFailure(0, FailureKind.EXCEPTION, "raised X", 1.0)
            raise RanksFailedError([failure], world_size=4, platform="cpu-gloo-4", job="x")
        return next(drawn).model_copy(update={"strategy": strategy, "launch": launch})

    monkeypatch.setattr(experiment, "_launch", launch)
    monkeypatch.setattr(experiment, "machine_lock", lambda on_wait: nullcontext())  # nothing is measured
    monkeypatch.setattr(experiment, "time", SimpleNamespace(monotonic=lambda: clock.now))
    plan = Plan(Platform.cpu(4), "mlp", launches, Settings(), tuple(ARMS), max_minutes=minutes)
    outcome = run(plan, on_launch=lambda done: None, on_wait=lambda line: None)
    return outcome, clock.now - 1000.0


def counts(outcome: Outcome) -> set[int]:
    """How many launches each arm had."""
    return {sum(m.strategy == arm for m in outcome.measurements) for arm in {m.strategy for m in outcome.measurements}}


@pytest.mark.parametrize(("minutes", "rounds"), [(1.0, 6), (0.9, 5), (0.75, 4), (0.5, 3)])
def test_no_round_is_begun_that_would_end_after_it(
    monkeypatch: pytest.MonkeyPatch, minutes: float, rounds: int
) -> None:
    """Rounds of 2 + 3 + 5 s: as many as end in time, each arm as often as the others."""
    outcome, ended = timed_run(monkeypatch, minutes, lambda arm, _: {"ddp": 2.0, "fsdp2": 3.0}.get(arm, 5.0))
    assert counts(outcome) == {rounds}
    assert ended == 10 * rounds
    assert ended <= 60 * minutes
    assert outcome.stopped == (
        ""
        if rounds == 6
        else f"--max-minutes {minutes:g} ended the job after {rounds} of at most 6 launches of each arm; one more of "
        "each would take about 0.17 minutes"
    )


def test_too_short_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time for three launches of each arm the job ends after the first of each, and says what it takes."""
    with pytest.raises(UsageError) as caught:
        timed_run(monkeypatch, 0.4, lambda *_: 4.0)
    assert str(caught.value) == (
        "--max-minutes 0.4 is too short: a verdict needs 3 launches of each arm, and those would take 0.6 minutes "
        "here. Allow more, or take fewer steps (--timed-steps)."
    )


def test_too_short_for_one_round_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm's first launch is not begun either when the others' show that it would end too late."""
    with pytest.raises(UsageError, match=r"even the first would take 0\.2 minutes"):
        timed_run(monkeypatch, 0.15, lambda *_: 4.0)


def test_first_launch_starts_more_than_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork server's start, in the first launch, is not counted for every later one."""
    outcome, _ = timed_run(monkeypatch, 1.5, lambda arm, n: 1.0 + 30.0 * (arm == "ddp" and n == 0))
    assert counts(outcome) == {6}


def test_slower_launches_are_expected_to_stay_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that becomes slower ends the job earlier: the last two launches count, not the first."""
    outcome, ended = timed_run(monkeypatch, 1.0, lambda _, n: 1.0 if n < 3 else 10.0)
    assert counts(outcome) == {4}
    assert ended <= 60


def test_failed_arm_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that failed is launched no more, and is no part of a round."""
    outcome, ended = timed_run(monkeypatch, 1.0, lambda arm, _: 20.0 if arm == "ddp" else 0.5, fails=["ddp"])
    assert (counts(outcome), set(outcome.failures)) == ({6}, {"ddp"})
    assert ended == 26


def test_undecided_says_that_time_was_over(tmp_path: Path) -> None:
    """Too noisy after 3 launches: INCONCLUSIVE, its reason says who ended the job; what is decided is not touched."""
    night = Job(launches=3)
    quiet = night.measurements()
    wild = [r.model_copy(update={"peak_bytes": 2 * r.peak_bytes}) for r in quiet[0].ranks]
    job = job_of(options_of(["--rehearse", "--max-minutes", "5", "--history", "off", "--baselines", str(tmp_path)]))
    job.measurements = [quiet[0].model_copy(update={"ranks": wild}), *quiet[1:]]
    job.baseline = accepted(night)
    job.stopped = "--max-minutes 5 ended the job"
    reasons = {c.case.id.partition("/")[2]: c.judgement.reason for c in job.comparisons}
    assert reasons["fsdp2:ddp/peak"].endswith("the tolerance is 10%; --max-minutes 5 ended the job")
    assert reasons["fsdp2:ddp/resident"] == "within 10% of the baseline"
    assert (summary := JobSummary.of(job)) is not None
    assert job.stopped in summary.notes


def job_of(options: Options) -> MeasuredJob:
    """A job of every arm that has measured nothing."""
    return MeasuredJob(options, tuple(ARMS), frozenset(), say=lambda line: None)


@pytest.mark.parametrize("given", ["0", "-3", "nan", "inf"])
def test_no_length_of_time_is_refused(judge: Judge, given: str) -> None:
    """Zero, less, or no number is one line and exit status 4."""
    result = judge.pytester.runpytest_inprocess("-p", "fixtures.plugin", "-m", "gpu", f"--max-minutes={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --max-minutes {given} is no length of time: *"])
