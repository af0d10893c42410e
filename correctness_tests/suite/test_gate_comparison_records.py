"""What a comparison keeps beside its verdict: both arms' figures, which of them moved, where its launches come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from correctness_tests.suite.synthetic import ARMS, Job, accepted
from fixtures.gate.baselines import Anchor, BaselineFile
from fixtures.gate.comparisons import Comparison, compare, missing_cases, unrecorded_cases
from fixtures.measurements import ALONE_PAIR, GIB, Measurement, UserCode

pytestmark = pytest.mark.cpu

BASELINE = accepted()
CASE = "gpt2-rehearsal/fsdp2:ddp/resident"


def of(launches: Sequence[Measurement], baseline: BaselineFile | None = BASELINE, case: str = CASE) -> Comparison:
    """That comparison of these launches."""
    return next(c for c in compare(launches, baseline, True) if c.case.id == case)


def scaled(**factors: float) -> list[Measurement]:
    """Launches whose fsdp2 is that many times as large."""
    return Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(**factors)}).measurements()


def told(launches: Sequence[Measurement], *provenances: dict[str, Any]) -> list[Measurement]:
    """The launches, each with other provenance; the last goes on."""
    return [
        m.model_copy(update={"provenance": m.provenance.model_copy(update=provenances[min(i, len(provenances) - 1)])})
        for i, m in enumerate(launches)
    ]


def with_resident(launches: Sequence[Measurement], strategy: str, *sizes: int) -> list[Measurement]:
    """Launch i of the arm holds ``sizes[i]`` bytes."""
    return [
        m.model_copy(update={"ranks": [r.model_copy(update={"resident_bytes": sizes[m.launch]}) for r in m.ranks]})
        if m.strategy == strategy
        else m
        for m in launches
    ]


def test_an_arm_is_summed_up_by_its_launches() -> None:
    """Median, lowest and highest, what was accepted, and the median's move against that."""
    found = of(with_resident(Job(launches=3).measurements(), "fsdp2", 3 * GIB, GIB, 4 * GIB))
    arm = found.numerator
    assert (arm.strategy, arm.median, arm.lowest, arm.highest) == ("fsdp2", 3 * GIB, GIB, 4 * GIB)
    assert (arm.unit, arm.accepted, arm.drift) == ("GiB", 2 * GIB, 0.5)
    assert (found.denominator.strategy, found.denominator.accepted) == ("ddp", 12 * GIB)


def test_without_a_baseline_nothing_moved() -> None:
    """No accepted figures, no drift, no arm named, no anchor."""
    found = of(Job().measurements(), None)
    assert (found.numerator.accepted, found.numerator.drift, found.moved_arm) == (None, None, "")
    assert (found.since_anchor, found.baseline_key, found.baseline) == (None, None, None)


def test_the_arm_that_moved_is_named() -> None:
    """The denominator first; within the warning's threshold an arm is unchanged, a time's by 4% and bytes' by 1%."""
    launches = scaled(resident=1.142, step=1.03)
    assert of(launches).moved_arm == "ddp unchanged (+0.0%), fsdp2 +14.2%"
    assert (
        of(launches, case="gpt2-rehearsal/fsdp2:ddp/step").moved_arm == "ddp unchanged (+0.0%), fsdp2 unchanged (+3.0%)"
    )
    assert of(scaled(resident=1.01)).moved_arm.endswith("fsdp2 unchanged (+1.0%)")


def test_what_judged_is_named() -> None:
    """The entry, and the platform whose file it stands in."""
    found = of(Job().measurements())
    assert (found.baseline, found.baseline_key) == (BASELINE.entries[CASE], "cpu-gloo-4")
    assert found.since_anchor is None


def test_the_move_since_the_anchor_is_told() -> None:
    """Against the first figure of its kind; None where there is no figure of tonight."""
    entry = BASELINE.entries[CASE]
    anchored = entry.model_copy(update={"anchor": Anchor(ratio=entry.ratio / 1.25, reason="then")})
    file = BASELINE.model_copy(update={"entries": {CASE: anchored}})
    assert of(scaled(resident=1.04), file).since_anchor == pytest.approx(0.3)
    assert of(with_resident(Job().measurements(), "ddp", 1, 1, 0, 1, 1, 1), file).since_anchor is None


def test_nights_of_the_baseline_tell_how_small_a_slip_is_seen() -> None:
    """Nights that differ by a tenth hide more than the tolerance; they decide nothing."""
    entry = BASELINE.entries[CASE]
    differing = entry.model_copy(update={"nights": [[entry.ratio * factor] * 3 for factor in (1 / 1.05, 1.05)]})
    slips = [
        of(Job().measurements(), BASELINE.model_copy(update={"entries": {CASE: stored}})).judgement.smallest_slip
        for stored in (entry, differing)
    ]
    assert slips[0] == pytest.approx(0.1)
    assert slips[1] is not None
    assert slips[1] > 0.2


def test_a_time_drifts_by_its_own_threshold() -> None:
    """3% of a time is no warning; of bytes it is."""
    step, resident = (
        of(scaled(step=1.03, resident=1.03), case=f"{CASE[:-8]}{metric}") for metric in ("step", "resident")
    )
    assert (step.numerator.unit, step.denominator.unit) == ("ms", "ms")
    assert (step.judgement.warning is None, resident.judgement.warning is None) == (True, False)


def test_nothing_accepted_is_no_other_run() -> None:
    """Without an entry the reason speaks of none."""
    assert of(Job().measurements(), None).judgement.reason == "no accepted ratio is stored for this case"


def test_a_single_launch_of_each_is_compared() -> None:
    """It has a ratio and no interval."""
    found = compare(Job(launches=1).measurements(), BASELINE, True)
    assert {c.judgement.verdict.value for c in found} == {"INCONCLUSIVE"}


def test_every_night_is_kept_with_its_ratios() -> None:
    """By night; none where there is no estimate."""
    launches = [m.model_copy(update={"night": m.launch // 4}) for m in Job().measurements()]
    assert [len(night) for night in of(launches).nights] == [4, 2]
    assert of(with_resident(launches, "ddp", 1, 1, 0, 1, 1, 1)).nights == ()


def test_commits_of_one_night_are_told() -> None:
    """Those of either arm."""
    launches = told(Job().measurements(), {"commit": "aaa"}, {"commit": "bbb"})
    assert (of(launches).mixed, of(Job().measurements()).mixed) == ("aaa / bbb", "")
    by_arm = [told([m], {"commit": m.strategy})[0] for m in Job().measurements()]
    assert of(by_arm).mixed == "ddp / fsdp2"


def test_provenance_is_the_latest_launchs() -> None:
    """By date, then by order; dirty if any launch was, of a job that did not end too, and every patch is named once."""
    latest = {"date": "2027-01-01", "dirty": False, "commit": "new"}
    patched: list[dict[str, Any]] = [
        {"rank_patch": "b", "dirty": True, "planned": 18},
        {"rank_patch": "a", **latest},
        {"rank_patch": "b", "dirty": None},
    ]
    found = of(told(Job().measurements(), *patched)).provenance
    assert (found.date, found.commit, found.dirty, found.rank_patch) == ("2027-01-01", "new", True, "a, b")
    assert found.planned == 18
    bare = of(told(Job().measurements(), {"dirty": None, "commit": None}, {"dirty": None, "commit": "last"})).provenance
    assert (bare.dirty, bare.rank_patch, bare.commit) == (None, None, "last")
    assert of(told(Job().measurements(), {"dirty": False})).provenance.dirty is False


def test_a_users_code_is_dirty_if_any_launch_had_changes() -> None:
    """The latest launch's, as far as any tells of one."""
    clean = UserCode(module="my.net", repository="net", commit="abc", dirty=False)
    dirty = clean.model_copy(update={"dirty": True})
    for first, found in ((dirty, dirty), (clean, clean), (None, clean)):
        launches = told(Job().measurements(), {"user_code": first}, {"user_code": clean})
        assert of(launches).provenance.user_code == found
    assert of(told(Job().measurements(), {"user_code": None})).provenance.user_code is None


def test_elsewhere_is_shown_where_nothing_is_accepted() -> None:
    """Beside NO_BASELINE alone: with an entry of its own, a platform needs no other."""
    elsewhere = {CASE: {"cpu-gloo-8": 0.17}}
    shown = [
        next(c for c in compare(Job().measurements(), file, True, elsewhere=elsewhere) if c.case.id == CASE).elsewhere
        for file in (None, BASELINE)
    ]
    assert shown == [{"cpu-gloo-8": 0.17}, {}]


@pytest.mark.parametrize("gate_times", [True, False])
def test_times_gate_where_they_count(gate_times: bool) -> None:
    """What is not gated is not stored and fails nothing, however far it moved; bytes always gate."""
    found = {c.case.metric: c for c in compare(scaled(step=2.0, resident=2.0), BASELINE, gate_times)}
    step, resident = found["step"], found["resident"]
    assert (step.gated, step.stored, resident.gated, resident.stored) == (gate_times, gate_times, True, True)
    assert [c.fails for c in compare(scaled(step=2.0, resident=2.0), BASELINE, gate_times)][:3] == [
        True,
        False,
        gate_times,
    ]


def test_an_arm_alone_is_stored_and_never_gates() -> None:
    """Launched in some rounds only, it is compared over those; what it took is held against an account."""
    top, alone = ALONE_PAIR
    arms = {top: ARMS.get(top, ARMS["ddp"]), alone: ARMS["ddp"].scaled(step=0.5)}
    launches = [m for m in Job(arms).measurements() if m.strategy == top or m.launch < 3]
    (found,) = [c for c in compare(launches, None, True) if (c.case.numerator, c.case.denominator) == ALONE_PAIR]
    assert found.estimate is not None
    assert (found.estimate.pairs, found.gated, found.stored, found.case.metric) == (3, False, True, "step")


def test_an_arm_alone_without_a_round_in_common_is_left_out() -> None:
    """Where launches were lost, no round may have both: the others are judged, and this pair gates nothing."""
    top, alone = ALONE_PAIR
    launches = Job({top: ARMS["ddp"], "fsdp2": ARMS["fsdp2"], alone: ARMS["ddp"]}).measurements()
    later = [m.model_copy(update={"launch": m.launch + 50}) if m.strategy == alone else m for m in launches]
    assert [c.case.id for c in compare(later, BASELINE, True)] == [
        f"{CASE[:-8]}{m}" for m in ("resident", "peak", "step")
    ]


def test_workloads_and_precisions_are_compared_by_themselves() -> None:
    """Launches of another precision are other cases, whatever the order in which they ran."""
    fp32 = [
        m.model_copy(update={"settings": m.settings.model_copy(update={"precision": "fp32"})})
        for m in Job().measurements()
    ]
    found = compare([launch for both in zip(Job().measurements(), fp32, strict=True) for launch in both], None, True)
    assert {c.judgement.verdict.value for c in found} == {"NO_BASELINE"}
    assert sorted(c.case.precision for c in found) == ["fp32"] * 6 + ["mixed"] * 6


def test_lost_and_new_cases_are_listed_in_order() -> None:
    """A case that the baseline names and nothing measured; and the reverse, of those that gate."""
    found = compare(Job().measurements(), None, True)
    assert missing_cases(found, None) == []
    assert missing_cases([], BASELINE) == sorted(BASELINE.entries)
    assert missing_cases([], BASELINE, asked=["gpt2-rehearsal"]) == sorted(BASELINE.entries)
    one = BASELINE.model_copy(update={"entries": {CASE: BASELINE.entries[CASE]}})
    assert unrecorded_cases(found, one) == sorted(set(BASELINE.entries) - {CASE})


def test_every_difference_from_the_entry_is_named() -> None:
    """What either side does not know is no difference."""
    job = Job()
    settings = job.settings.model_copy(update={"timed_steps": 5, "warmup_steps": 3, "loop": 2})
    workload = job.workload.model_copy(update={"num_params": 7, "shape_hash": ""})
    found = of(Job(settings=settings, workload=workload).measurements())
    assert found.judgement.reason == (
        "the stored entry is of another run: num_params 1000000 then, 7 now; warmup steps 2 then, 3 now; timed steps 4 "
        "then, 5 now; version of the loop 1 then, 2 now"
    )
    assert (found.baseline, found.baseline_key, found.numerator.accepted) == (None, None, None)


def test_an_arm_without_a_figure_is_summed_up_as_nothing() -> None:
    """A metric that one arm lacks is INVALID, and that arm has no bytes."""
    launches = [
        m.model_copy(update={"ranks": [r.model_copy(update={"reserved_bytes": 5}) for r in m.ranks]})
        if m.strategy == "fsdp2"
        else m
        for m in Job().measurements()
    ]
    found = of(launches, case=f"{CASE[:-8]}reserved")
    assert (found.denominator.median, found.numerator.median, found.judgement.verdict.value) == (0.0, 5.0, "INVALID")
