"""Launch i of one arm meets launch i of the other: their figures, nights and commits, and what speaks against it."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic import CPU4, Job
from fixtures.gate.pairing import (
    RANK0_ONLY,
    Arms,
    contradictions,
    estimate_of,
    mixed_commits,
    nights_of,
    value_of,
    whole_rounds,
)
from fixtures.gate.sequential import confidence_of
from fixtures.measurements import Measurement, RankSamples

pytestmark = pytest.mark.cpu

Columns = list[list[float | None]]


def arms(launches: int = 4, first: int = 0) -> Arms:
    """fsdp2 over ddp, launches numbered from ``first``."""
    drawn = [m.model_copy(update={"launch": m.launch + first}) for m in Job(launches=launches).measurements()]
    return [m for m in drawn if m.strategy == "fsdp2"], [m for m in drawn if m.strategy == "ddp"]


def of_nights(nights: list[int], looks: list[int] | None = None) -> Arms:
    """Launch i of both arms is from ``nights[i]``, whose job was to look ``looks[i]`` times."""
    updates = [{"night": night, "looks": (looks or [1] * len(nights))[i]} for i, night in enumerate(nights)]
    tops, bottoms = arms(len(nights))
    return (
        [m.model_copy(update=update) for m, update in zip(tops, updates, strict=True)],
        [m.model_copy(update=update) for m, update in zip(bottoms, updates, strict=True)],
    )


def test_only_launches_of_both_arms_are_pairs() -> None:
    """A launch that one arm lacks is in no ratio, and the others meet by number, whatever their order."""
    tops, bottoms = arms(4)
    estimate, reasons = estimate_of((tops[::-1], bottoms[1:]), [[8.0, 6.0, 4.0, 99.0], [2.0, 3.0, 4.0]])
    assert estimate is not None
    assert (estimate.ratio, estimate.pairs, reasons) == (2.0, 3, [])


def test_arms_without_a_launch_in_common_have_no_ratio() -> None:
    """Numbers that nowhere meet are told as that."""
    assert estimate_of((arms(2)[0], arms(2, first=2)[1]), [[1.0, 1.0], [1.0, 1.0]]) == (
        None,
        ["the arms share no launch"],
    )


def planned(launches: list[Measurement], night: int = 0) -> list[Measurement]:
    """As they are kept of a job that did not end."""
    return [
        m.model_copy(update={"night": night, "provenance": m.provenance.model_copy(update={"planned": 9})})
        for m in launches
    ]


def test_the_round_of_an_interruption_is_left_out() -> None:
    """A launch of either arm whose partner never ran; nothing of a job that ended, nor of arms that share no launch."""
    tops, bottoms = arms(3)
    for cut in ((planned(tops), planned(bottoms[:2])), (planned(tops[:2]), planned(bottoms))):
        assert [[m.launch for m in arm] for arm in whole_rounds(cut)] == [[0, 1], [0, 1]]
    whole = (tops, bottoms[:2])
    assert whole_rounds(whole) == whole
    apart = planned(tops[:1]), planned(bottoms[1:])
    assert whole_rounds(apart) == apart
    both = [*tops[:2], *planned(tops[2:], night=1)], bottoms[:1]
    assert [[m.launch for m in arm] for arm in whole_rounds(both)] == [[0, 1], [0]]


def test_every_launch_without_a_figure_is_named() -> None:
    """On whichever side it lacks: INVALID by launch, not compared over the others."""
    columns: Columns = [[None, 1.0, 1.0, 1.0], [1.0, 1.0, None, 1.0]]
    assert estimate_of(arms(4, first=5), columns) == (None, ["no figure in launch 5", "no figure in launch 7"])


def test_an_impossible_figure_is_the_reason() -> None:
    """A zero is no figure: the pair and the arm stand in the reason."""
    estimate, reasons = estimate_of(arms(3), [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    assert estimate is None
    assert reasons == ["denominator of pair 1 is 0: must be a positive finite number"]


@pytest.mark.parametrize(("looks", "combinations"), [([2, 1, 1, 3], 6), ([1, 1, 1, 3], 3), ([1, 1, 1, 1], 1)])
def test_looks_of_pooled_nights_multiply(looks: list[int], combinations: int) -> None:
    """Two nights that could have stopped at 2 and 3 looks: 6 combinations, by what any launch of a night says."""
    ones: Columns = [[1.0] * 4, [1.0] * 4]
    estimate, _ = estimate_of(of_nights([0, 0, 1, 1], looks), ones)
    assert estimate is not None
    assert estimate.confidence == confidence_of(combinations)


def test_either_arm_tells_the_looks() -> None:
    """Launches of the numerator alone, or of the denominator alone, that say more are enough."""
    one, two = of_nights([0, 0, 0]), of_nights([0, 0, 0], [2, 2, 2])
    for mixed in ((one[0], two[1]), (two[0], one[1])):
        estimate, _ = estimate_of(mixed, [[1.0] * 3, [1.0] * 3])
        assert estimate is not None
        assert estimate.confidence == confidence_of(2)


def test_ratios_are_kept_by_night() -> None:
    """In order of nights; a pair without a figure, or with a zero, is in none."""
    columns: Columns = [[6.0, 8.0, None, 4.0, 3.0], [2.0, 2.0, 1.0, 0.0, 3.0]]
    assert nights_of(of_nights([1, 0, 0, 0, 1]), columns) == ((4.0,), (3.0, 1.0))
    tops, bottoms = arms(3)
    assert nights_of((tops, bottoms[1:]), [[1.0, 2.0, 3.0], [2.0, 2.0]]) == ((1.0, 1.5),)


def committed(launches: list[Measurement], *commits: str | None) -> list[Measurement]:
    """The launches, each from its commit."""
    return [
        m.model_copy(update={"provenance": m.provenance.model_copy(update={"commit": commit})})
        for m, commit in zip(launches, commits, strict=True)
    ]


def test_only_commits_of_one_night_are_mixed() -> None:
    """Nights may be of different commits; of a night with several all are told, and unknown ones are none."""
    launches = of_nights([0, 0, 1, 2, 2])[0]
    assert mixed_commits(committed(launches, "b", "b", "a", None, "c")) == ""
    assert mixed_commits(committed(launches, "b", "a", "a", "d", "c")) == "a / b; c / d"


def test_a_figure_that_cannot_be_had_is_zero() -> None:
    """None where a platform lacks the metric; 0, which no ratio takes, where ranks timed different numbers of steps."""
    launch = arms(1)[0][0]
    assert value_of(launch, "reserved") is None
    short = launch.ranks[0].model_copy(update={"step_ms": [1.0]})
    for ranks in ([short, *launch.ranks[1:]], [r.model_copy(update={"step_ms": []}) for r in launch.ranks]):
        assert value_of(launch.model_copy(update={"ranks": ranks}), "step") == 0.0


def with_ranks(launch: Measurement, ranks: list[RankSamples]) -> Measurement:
    """The launch with other samples."""
    return launch.model_copy(update={"ranks": ranks})


def test_launches_of_a_job_do_not_contradict_each_other() -> None:
    """Ranks in any order are all ranks."""
    tops, bottoms = arms(2)
    assert contradictions(([with_ranks(tops[0], tops[0].ranks[::-1]), tops[1]], bottoms)) == []


def test_every_contradiction_is_told() -> None:
    """Doubled launches, missing partners and ranks, and unequal steps, arm by arm, in order."""
    tops, bottoms = arms(3)
    tops[1] = with_ranks(tops[1], tops[1].ranks[1:])
    bottoms[0] = with_ranks(
        bottoms[0], [bottoms[0].ranks[0].model_copy(update={"step_ms": [1.0]}), *bottoms[0].ranks[1:]]
    )
    assert contradictions(([tops[0], tops[1], tops[0]], bottoms)) == [
        "launch 0 of fsdp2 appears twice",
        "launch 1 of fsdp2 has samples of ranks [1, 2, 3], not of all 4",
        "launch 2 of ddp has no partner",
        "launch 0 of ddp: its ranks timed different numbers of steps",
    ]


@pytest.mark.parametrize("change", [{"messages": "fedcba9876543210"}, {"collectives": []}])
def test_other_collectives_on_one_rank_are_told(change: dict[str, object]) -> None:
    """By order and kind (the digest) or by count: the arm is named."""
    tops, bottoms = arms(2)
    bottoms[1] = with_ranks(bottoms[1], [*bottoms[1].ranks[:3], bottoms[1].ranks[3].model_copy(update=change)])
    assert contradictions((tops, bottoms)) == ["the ranks or launches of ddp issued different collectives"]


def test_launches_of_other_settings_and_workloads_are_told() -> None:
    """Both arms together must be of one workload and of one number of steps; long lists are cut."""
    tops, bottoms = arms(1)
    workload = tops[0].workload.model_copy(update={"name": "a" * 200})
    settings = tops[0].settings.model_copy(update={"warmup_steps": 9})
    found = contradictions(([tops[0].model_copy(update={"workload": workload, "settings": settings})], bottoms))
    assert [reason[:34] for reason in found] == [
        "launches of different workloads: {",
        'launches of different settings: {"',
    ]
    assert len(found[0]) == len("launches of different workloads: ") + 300


def test_samples_of_too_many_ranks_are_cut() -> None:
    """Sixteen ranks are named; rows that hold rank 0 by design are excused."""
    wide = CPU4.model_copy(update={"world_size": 40})
    (top,), (bottom,) = arms(1)
    ranks = [top.ranks[0].model_copy(update={"rank": rank}) for rank in range(39)]
    lost = with_ranks(top, ranks).model_copy(update={"platform": wide})
    assert contradictions(([lost], [bottom]))[0] == (
        f"launch 0 of fsdp2 has samples of ranks {list(range(16))}, not of all 40"
    )
    excused = top.provenance.model_copy(update={"controls": {RANK0_ONLY: "a CSV"}})
    alone = with_ranks(top, top.ranks[:1]).model_copy(update={"provenance": excused})
    assert contradictions(([alone], [bottom])) == []
