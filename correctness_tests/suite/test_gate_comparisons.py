"""Launches are paired as they ran, and what can't be paired or compared is said, never skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correctness_tests.suite.synthetic import CPU4, STACK, WORKLOAD, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.cases import Case
from fixtures.gate.comparisons import RANK0_ONLY, Comparison, compare, missing_cases, unrecorded_cases
from fixtures.gate.verdicts import Verdict
from fixtures.measurements import Measurement, RankSamples, Settings

pytestmark = pytest.mark.cpu

BASELINE = accepted()
ALL_CASES = sorted(
    f"gpt2-rehearsal/{pair}/{metric}"
    for pair in ("fsdp2:ddp", "fsdp2-noreshard:fsdp2")
    for metric in ("resident", "peak", "step")
)


def first(launches: list[Measurement]) -> Comparison:
    """fsdp2:ddp/resident of these launches."""
    return next(c for c in compare(launches, BASELINE, True) if c.case.id.endswith("fsdp2:ddp/resident"))


def with_ranks(launch: Measurement, change: Callable[[RankSamples], RankSamples]) -> Measurement:
    """The launch with every rank's samples changed."""
    return launch.model_copy(update={"ranks": [change(rank) for rank in launch.ranks]})


def test_every_pair_and_metric_is_compared() -> None:
    """Two pairs by the three metrics that a CPU has; the allocator's reserved bytes don't exist there."""
    assert sorted(c.case.id for c in compare(Job().measurements(), BASELINE, True)) == ALL_CASES


@pytest.mark.parametrize("precision", ["mixed", "fp32"])
@pytest.mark.parametrize("workload", ["gpt2-large", "a/b:c", "x/fp32"])
def test_case_id_reads_back(workload: str, precision: str) -> None:
    """A case's id names it uniquely: parsed, it is the case."""
    case = Case.model_validate(
        {"workload": workload, "numerator": "fsdp2", "denominator": "ddp", "metric": "peak", "precision": precision}
    )
    assert Case.parse(case.id) == case


def test_launch_is_paired_with_launch() -> None:
    """Launch i meets launch i in whatever order the samples lie: noise that pairs share cancels exactly."""
    launches = Job(shared_sd=0.5).measurements()
    found = next(c for c in compare(launches[::-1], None, True) if c.case.id.endswith("fsdp2:ddp/step"))
    assert found.estimate is not None
    assert found.estimate.ratio == pytest.approx(340 / 480)
    assert found.estimate.high == pytest.approx(found.estimate.low)


def test_lost_launch_is_invalid() -> None:
    """A launch without a partner is INVALID, by arm and number."""
    launches = [m for m in Job().measurements() if (m.strategy, m.launch) != ("ddp", 3)]
    assert (first(launches).judgement.verdict, first(launches).judgement.reason) == (
        Verdict.INVALID,
        "launch 3 of fsdp2 has no partner",
    )


def test_repeated_launch_is_invalid() -> None:
    """The same launch number twice is INVALID: two runs were mixed."""
    launches = Job().measurements()
    assert "launch 0 of ddp appears twice" in first([*launches, launches[0]]).judgement.reason


def test_missing_rank_is_invalid() -> None:
    """Samples of 3 ranks of 4 are INVALID: the maximum over ranks may be the missing one."""
    launches = Job().measurements()
    launches[0] = launches[0].model_copy(update={"ranks": launches[0].ranks[:3]})
    assert "launch 0 of ddp has samples of ranks [0, 1, 2], not of all 4" in first(launches).judgement.reason


def test_rank_0_alone_is_enough_where_it_says_so() -> None:
    """Rows of a CSV hold rank 0 by design, and are judged."""
    launches = [
        m.model_copy(
            update={
                "ranks": m.ranks[:1],
                "provenance": m.provenance.model_copy(update={"controls": {RANK0_ONLY: "a CSV"}}),
            }
        )
        for m in Job().measurements()
    ]
    assert first(launches).judgement.verdict is Verdict.PASS


def test_zero_bytes_are_invalid() -> None:
    """A meter that read zero proves nothing: INVALID, with the figure named."""
    launches = [with_ranks(m, lambda r: r.model_copy(update={"resident_bytes": 0})) for m in Job().measurements()]
    assert "numerator of pair 0 is 0" in first(launches).judgement.reason


def test_ranks_with_unequal_steps_are_invalid() -> None:
    """A rank that timed another number of steps is INVALID, not cut to the shortest."""
    launches = Job().measurements()
    short = launches[0].ranks[0].model_copy(update={"step_ms": [1.0]})
    launches[0] = launches[0].model_copy(update={"ranks": [short, *launches[0].ranks[1:]]})
    assert "its ranks timed different numbers of steps" in first(launches).judgement.reason


def test_mixed_stacks_are_invalid() -> None:
    """Launches of two torch versions in one comparison are INVALID: a ratio needs one stack."""
    newer = Job(stack=STACK.model_copy(update={"torch": "2.14.1"})).measurements()
    mixed = [b if b.strategy == "fsdp2" else a for a, b in zip(Job().measurements(), newer, strict=True)]
    assert first(mixed).judgement.reason.startswith("launches of different stacks: torch 2.13.0")


def test_reserved_in_some_launches_only_is_invalid() -> None:
    """A metric that some launches lack is INVALID, not compared over the others."""
    launches = Job().measurements()
    launches[0] = with_ranks(launches[0], lambda r: r.model_copy(update={"reserved_bytes": 5}))
    found = next(c for c in compare(launches, BASELINE, True) if c.case.id.endswith("fsdp2:ddp/reserved"))
    assert (found.judgement.verdict, "no figure in launch" in found.judgement.reason) == (Verdict.INVALID, True)


def test_another_shape_has_no_baseline() -> None:
    """A workload whose shapes changed is not what was accepted: NO_BASELINE, with both hashes."""
    other = Job(workload=WORKLOAD.model_copy(update={"shape_hash": "def456"})).measurements()
    assert first(other).judgement.verdict is Verdict.NO_BASELINE
    assert "shape_hash abc123 then, def456 now" in first(other).judgement.reason


def test_other_settings_have_no_baseline() -> None:
    """Another number of steps is another measurement: NO_BASELINE, with both numbers."""
    other = Job(settings=Settings(warmup_steps=2, timed_steps=5, inspected_steps=3)).measurements()
    assert "timed steps 4 then, 5 now" in first(other).judgement.reason


def test_another_stack_is_judged() -> None:
    """The stack is provenance: the old baseline judges the new torch."""
    newer = Job(stack=STACK.model_copy(update={"torch": "2.14.1"})).measurements()
    assert first(newer).judgement.verdict is Verdict.PASS


def test_invalid_reasons_from_outside_count() -> None:
    """What the session knows (a control that read wrong) makes every comparison INVALID."""
    found = compare(Job().measurements(), BASELINE, True, invalid_reasons=["the clock's control read 2x"])
    assert {(c.judgement.verdict, c.judgement.reason) for c in found} == {
        (Verdict.INVALID, "the clock's control read 2x")
    }


def test_wild_launch_goes_by_its_number() -> None:
    """``wild`` holds launch numbers, also when they don't start at 0."""
    launches = [m.model_copy(update={"launch": m.launch + 10}) for m in Job().measurements()]
    launches[0] = with_ranks(launches[0], lambda r: r.model_copy(update={"resident_bytes": r.resident_bytes * 2}))
    estimate = first(launches).estimate
    assert estimate is not None
    assert estimate.wild == (10,)


def test_several_platforms_are_an_error() -> None:
    """Results of two platforms can't be judged together, and both are named."""
    other = Job(platform=CPU4.model_copy(update={"world_size": 2})).measurements()
    with pytest.raises(UsageError, match="cpu-gloo-2, cpu-gloo-4"):
        compare([*Job().measurements(), *other], None, True)


def test_baseline_of_another_platform_never_judges() -> None:
    """Asking one platform's baseline to judge another is an error."""
    with pytest.raises(UsageError, match="the baseline of cpu-gloo-4 can't judge a run on cpu-gloo-2"):
        compare(Job(platform=CPU4.model_copy(update={"world_size": 2})).measurements(), BASELINE, True)


def test_lost_case_is_listed() -> None:
    """An arm that did not run loses the cases that the baseline names, and each is listed (rule 2)."""
    launches = [m for m in Job().measurements() if m.strategy != "fsdp2-noreshard"]
    lost = missing_cases(compare(launches, BASELINE, True), BASELINE)
    assert lost == [case for case in ALL_CASES if "noreshard" in case]


def test_case_of_a_workload_not_asked_for_is_not_lost() -> None:
    """Running one workload does not lose the cases of another."""
    assert missing_cases([], BASELINE, asked=["gpt2-large"]) == []


def test_measured_case_without_an_entry_is_listed() -> None:
    """The reverse: a gated case that no entry speaks of is listed; a time that is not gated is not."""
    found = compare(Job().measurements(), None, gate_times=False)
    assert unrecorded_cases(found, None) == [case for case in ALL_CASES if not case.endswith("step")]
