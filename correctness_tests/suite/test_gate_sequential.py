"""A job stops when nothing that gates is undecided, goes on to its cap otherwise, and pays for each look."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.judging import Judge, judge
from correctness_tests.suite.synthetic import Job, accepted
from fixtures import experiment
from fixtures.experiment import Outcome, Plan, run
from fixtures.gate.comparisons import compare
from fixtures.gate.sequential import confidence_of, is_look, may_stop, planned_looks, undecided
from fixtures.gate.verdicts import TOLERANCE, Judgement, Verdict
from fixtures.measurements import Measurement, Settings
from fixtures.platforms import Platform

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

SURE = Judgement(verdict=Verdict.PASS, reason="x", move=0.01, move_low=-0.02, move_high=0.04)
UNSURE = Judgement(verdict=Verdict.PASS, reason="x", move=0.05, move_low=-0.02, move_high=0.12)


@given(st.integers(3, 12), st.integers(0, 12))
def test_looks_are_those_planned(minimum: int, more: int) -> None:
    """However far a job goes, it looks exactly as often as its intervals were widened for."""
    looks = [n for n in range(1, minimum + more + 1) if is_look(n, minimum, minimum + more)]
    assert len(looks) == planned_looks(minimum, minimum + more)
    assert (looks[0], looks[-1]) == (minimum, minimum + more)


def test_errors_of_all_looks_add_up_to_five_percent() -> None:
    """The confidence of each look leaves 5% for all of them together; one look has the plain 95%."""
    assert [looks * (1 - confidence_of(looks)) for looks in (1, 2, 5)] == pytest.approx([0.05] * 3)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_noise_asks_for_more(verdict: Verdict) -> None:
    """INCONCLUSIVE is undecided; a failure, a missing baseline and invalid samples are not made better by launches."""
    assert undecided(Judgement(verdict=verdict, reason="x", move_low=0.0, move_high=0.0)) is (
        verdict is Verdict.INCONCLUSIVE
    )


def test_pass_that_could_be_a_slip_is_undecided() -> None:
    """A PASS whose interval reaches beyond the tolerance, on either side, asks for more launches."""
    low = UNSURE.model_copy(update={"move_low": -0.12, "move_high": 0.0})
    assert [undecided(judgement) for judgement in (SURE, UNSURE, low)] == [False, True, True]


@pytest.mark.parametrize(("low", "high"), [(1.0 - 1.1, 0.0), (0.0, 1.1 - 1.0)])
def test_interval_that_ends_at_the_tolerance_is_decided(low: float, high: float) -> None:
    """10% in floats is a hair more than the tolerance: no launch is spent on a rounding."""
    assert max(-low, high) > TOLERANCE
    assert not undecided(SURE.model_copy(update={"move_low": low, "move_high": high}))


@pytest.mark.parametrize(("low", "high"), [(None, None), (0.0, None), (None, 0.0)])
def test_pass_without_an_interval_is_undecided(low: float | None, high: float | None) -> None:
    """What is not known to lie within the tolerance asks for more launches."""
    assert undecided(SURE.model_copy(update={"move_low": low, "move_high": high}))


def test_cap_below_the_minimum_is_named() -> None:
    """With both numbers."""
    with pytest.raises(ValueError, match="a cap of 5 launches is below the minimum of 6"):
        planned_looks(6, 5)


def test_job_stops_at_a_look_or_at_its_cap() -> None:
    """Undecided: on to the cap. Decided: at the next look, never between two, never before the minimum."""
    assert [may_stop(n, 6, 10, [SURE, UNSURE]) for n in (6, 7, 8, 9, 10)] == [False, False, False, False, True]
    assert [may_stop(n, 6, 10, [SURE, SURE]) for n in (5, 6, 7, 8)] == [False, True, False, True]


def launched(
    monkeypatch: pytest.MonkeyPatch, stop_at: int | None, launches: int, max_launches: int = 0
) -> list[Measurement]:
    """What a job of three arms measures when its verdicts are decided after ``stop_at`` launches of each."""
    drawn = iter(Job(launches=20).measurements())

    def launch(plan: Plan, strategy: str, launch: int, order: int, watch: object) -> Measurement:
        return next(drawn).model_copy(update={"strategy": strategy, "launch": launch})

    monkeypatch.setattr(experiment, "_launch", launch)
    monkeypatch.setattr(experiment, "machine_lock", lambda on_wait: nullcontext())  # nothing is measured
    plan = Plan(Platform.cpu(4), "mlp", launches, Settings(), max_launches=max_launches)
    return run(plan, lambda done: None, lambda line: None, lambda n, _: n == stop_at).measurements


def test_job_launches_no_more_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided after 5 launches, a job of 3 to 9 ends there; every launch says how many looks were planned."""
    made = launched(monkeypatch, 5, launches=3, max_launches=9)
    assert (len(made), {m.looks for m in made}) == (15, {4})


def test_job_ends_at_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never decided: the cap; without a cap: exactly as many launches as asked, with one look."""
    assert len(launched(monkeypatch, None, launches=3, max_launches=6)) == 18
    made = launched(monkeypatch, 3, launches=4)
    assert (len(made), {m.looks for m in made}) == (12, {1})


def test_session_goes_on_while_its_own_gate_is_undecided(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--max-launches`` asks the session's verdicts: bytes that agree end it at a look, one wild launch does not."""
    night = Job(seed=3)
    judge.accept(accepted(night))
    quiet = night.measurements()
    wild = [
        m.model_copy(update={"ranks": [r.model_copy(update={"peak_bytes": 1}) for r in m.ranks]}) for m in quiet[:1]
    ]
    asked = []

    def ask(
        plan: Plan, on_launch: object, on_wait: object, enough: Callable[[int, list[Measurement]], bool]
    ) -> Outcome:
        asked.extend(
            [enough(4, [*wild, *quiet[1:]]), enough(4, quiet), enough(5, quiet), enough(8, [*wild, *quiet[1:]])]
        )
        return Outcome(quiet)

    monkeypatch.setattr(experiment, "run", ask)
    given = ("-p", "fixtures.plugin", "-m", "gpu", "--rehearse", "--max-launches", "8", "--baselines", "accepted")
    result = judge.pytester.runpytest_inprocess(*given, "-k", "fsdp2")
    assert asked == [False, True, False, True], result.stdout.str()


def test_stored_launches_are_judged_by_the_planned_looks() -> None:
    """Measurements of a job with 3 looks have intervals of 98.3%, wider than one look's; pooled nights multiply."""
    launches = Job(own_sd=0.02).measurements()
    found = []
    for looks, nights in ((1, 1), (3, 1), (3, 2)):
        made = [m.model_copy(update={"looks": looks, "night": m.launch % nights}) for m in launches]
        estimate = next(c for c in compare(made, accepted(), True) if c.case.metric == "step").estimate
        assert estimate is not None
        found.append((estimate.confidence, (estimate.high or 0) - (estimate.low or 0)))
    assert [confidence for confidence, _ in found] == pytest.approx([0.95, 1 - 0.05 / 3, 1 - 0.05 / 9])
    assert found[0][1] < found[1][1] < found[2][1]


def test_pooled_nights_are_kept_apart_in_the_entry() -> None:
    """An entry made of two nights keeps the ratios of each."""
    job = replace(Job(own_sd=0.01), launches=4)
    compared = compare([m.model_copy(update={"night": m.launch // 2}) for m in job.measurements()], None, True)
    assert [len(night) for night in compared[0].nights] == [2, 2]
