"""What is planted in drawn launches is what the gate says, with the arm that moved named."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic import ARMS, Figures, Job, accepted
from fixtures.gate.comparisons import Comparison, compare
from fixtures.gate.verdicts import Verdict

pytestmark = pytest.mark.cpu

QUIET = Job(own_sd=0.01, shared_sd=0.05)
NOISY_BASELINE = accepted(Job(own_sd=0.01, shared_sd=0.05, seed=99))
BASELINE = accepted()


def judged(case: str, job: Job, **slips: Figures) -> Comparison:
    """The comparison of one case of a job whose arms carry these slips."""
    arms = {**ARMS, **slips}
    planted = Job(arms, job.launches, job.own_sd, job.shared_sd, job.seed)
    baseline = BASELINE if job.shared_sd == 0 else NOISY_BASELINE
    return next(c for c in compare(planted.measurements(), baseline, True) if c.case.id.endswith(case))


@pytest.mark.parametrize("seed", range(5))
def test_nothing_planted_passes(seed: int) -> None:
    """The same arms on another night pass every case, though the machine as a whole was 5% off (A/A)."""
    found = compare(Job(own_sd=0.01, shared_sd=0.05, seed=seed).measurements(), NOISY_BASELINE, gate_times=True)
    assert {c.case.id: c.judgement.verdict for c in found} == {c.case.id: Verdict.PASS for c in found}


def test_slower_step_regresses() -> None:
    """12% more time a step in one arm is REGRESSED, and that arm is named."""
    found = judged("fsdp2:ddp/step", Job(), fsdp2=ARMS["fsdp2"].scaled(step=1.12))
    assert (found.judgement.verdict, found.fails) == (Verdict.REGRESSED, True)
    assert found.moved_arm == "ddp unchanged (+0.0%), fsdp2 +12.0%"


def test_slower_step_regresses_through_noise() -> None:
    """12% is still seen through 1% of noise in each launch and 5% that both arms share."""
    found = judged("fsdp2:ddp/step", QUIET, fsdp2=ARMS["fsdp2"].scaled(step=1.12))
    assert found.judgement.verdict is Verdict.REGRESSED


def test_faster_denominator_is_named() -> None:
    """A ratio that rose because DDP got faster says so: ddp moved, fsdp2 did not."""
    found = judged("fsdp2:ddp/step", Job(), ddp=ARMS["ddp"].scaled(step=0.85))
    assert found.judgement.verdict is Verdict.REGRESSED
    assert found.moved_arm == "ddp -15.0%, fsdp2 unchanged (+0.0%)"


def test_faster_step_improves() -> None:
    """12% less time a step is IMPROVED, and fails."""
    found = judged("fsdp2:ddp/step", Job(), fsdp2=ARMS["fsdp2"].scaled(step=0.88))
    assert (found.judgement.verdict, found.fails) == (Verdict.IMPROVED, True)


def test_noise_is_inconclusive() -> None:
    """30% of noise in each launch can't carry a verdict: INCONCLUSIVE, and fails."""
    found = judged("fsdp2:ddp/step", Job(own_sd=0.3))
    assert (found.judgement.verdict, found.fails) == (Verdict.INCONCLUSIVE, True)


def test_two_launches_are_inconclusive() -> None:
    """Two launches an arm, however quiet, are too few."""
    assert judged("fsdp2:ddp/resident", Job(launches=2)).judgement.verdict is Verdict.INCONCLUSIVE


def test_memory_slip_regresses() -> None:
    """12% more bytes at rest in one arm is REGRESSED with an interval of no width; the others pass."""
    found = judged("fsdp2:ddp/resident", QUIET, fsdp2=ARMS["fsdp2"].scaled(resident=1.12))
    assert found.judgement.verdict is Verdict.REGRESSED
    assert found.moved_arm == "ddp unchanged (+0.0%), fsdp2 +12.0%"


def test_memory_drift_passes_with_a_warning() -> None:
    """2% more bytes pass, with a warning."""
    found = judged("fsdp2:ddp/peak", QUIET, fsdp2=ARMS["fsdp2"].scaled(peak=1.02))
    assert (found.judgement.verdict, bool(found.judgement.warning)) == (Verdict.PASS, True)


def test_common_move_passes() -> None:
    """Both arms 30% slower is not this gate's business: the ratio did not move."""
    found = judged("fsdp2:ddp/step", Job(), fsdp2=ARMS["fsdp2"].scaled(step=1.3), ddp=ARMS["ddp"].scaled(step=1.3))
    assert (found.judgement.verdict, found.moved_arm) == (Verdict.PASS, "ddp +30.0%, fsdp2 +30.0%")


def test_no_baseline_fails() -> None:
    """Without a baseline every gated case is NO_BASELINE and fails."""
    found = compare(Job().measurements(), None, gate_times=True)
    assert {(c.judgement.verdict, c.fails) for c in found} == {(Verdict.NO_BASELINE, True)}


def test_rehearsed_times_do_not_gate() -> None:
    """A time that is not gated is judged and shown, and fails nothing."""
    job = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(step=2.0)})
    times = [c for c in compare(job.measurements(), BASELINE, gate_times=False) if c.case.is_time]
    assert {(c.judgement.verdict is Verdict.PASS, c.fails) for c in times} == {(False, False)}
