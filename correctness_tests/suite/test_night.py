"""A bad night is INVALID, whatever its figures say: each kind, judged from stored results, named by device and rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from correctness_tests.suite.judging import GPUS, NIGHT, Judge, judge, slipped
from correctness_tests.suite.synthetic import Job, accepted
from fixtures.gate.comparisons import compare
from fixtures.gate.night import STRAGGLER, invalid_reasons, remarks
from fixtures.gate.verdicts import Verdict
from fixtures.measurements import GIB, DeviceReading, Measurement, Telemetry
from fixtures.report.results import load_results, save_results

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

WORK_MS = 10.0


def watched(job: Job = NIGHT, *, launch: int = 7, rank: int = 3, **seen: Any) -> list[Measurement]:
    """The job's launches with a quiet night's readings, and with ``seen`` on one rank's device in one of them."""
    made = []
    for m in job.measurements():
        devices = [
            DeviceReading(rank=r, name="NVIDIA H200", memory_bytes=141 * GIB, power_limit_w=700.0, ecc_errors=0)
            for r in range(m.platform.world_size)
        ]
        if m.order == launch:
            devices[rank] = DeviceReading.model_validate({**devices[rank].model_dump(), **seen})
        ranks = [r.model_copy(update={"known_work_ms": WORK_MS + r.rank / 100, "alloc_retries": 0}) for r in m.ranks]
        telemetry = Telemetry(source="NVML, driver 580.65", devices=devices)
        made.append(m.model_copy(update={"telemetry": telemetry, "ranks": ranks}))
    return made


def on_rank(measurements: list[Measurement], rank: int, arm: str, **figures: Any) -> list[Measurement]:
    """The same launches, with these figures of one rank in every launch of one arm."""
    return [
        m.model_copy(
            update={"ranks": [r.model_copy(update=figures) if r.rank == rank else r for r in m.ranks]}
            if m.strategy == arm
            else {}
        )
        for m in measurements
    ]


BAD_NIGHTS = {
    "throttled": (
        watched(throttled=["hardware thermal slowdown"]),
        "rank 3's NVIDIA H200 was throttled: hardware thermal slowdown (launch 2 of fsdp2)",
    ),
    "ECC": (
        watched(ecc_errors=2),
        "rank 3's NVIDIA H200 had 2 uncorrected memory errors (ECC) (launch 2 of fsdp2)",
    ),
    "Xid": (watched(xids=[79, 45]), "rank 3's NVIDIA H200 reported Xid 79 (launch 2 of fsdp2)"),
    "shared": (
        watched(foreign=["process 4711 (python)"]),
        "rank 3's NVIDIA H200 was shared with process 4711 (python) (launch 2 of fsdp2)",
    ),
    "another model": (
        watched(name="NVIDIA H100"),
        "the devices differ: rank 3's model is NVIDIA H100, that of most NVIDIA H200 (launch 2 of fsdp2)",
    ),
    "less memory": (
        watched(memory_bytes=80 * GIB),
        "the devices differ: rank 3's memory is 80 GiB, that of most 141 GiB (launch 2 of fsdp2)",
    ),
    "less power": (
        watched(power_limit_w=350.0),
        "the devices differ: rank 3's power limit is 350 W, that of most 700 W (launch 2 of fsdp2)",
    ),
    "fragmented": (
        on_rank(watched(), 5, "ddp", alloc_retries=4),
        "rank 5's allocator gave its memory back and asked again 4 times in timed steps (6 of 18 launches, first "
        "launch 0 of ddp)",
    ),
    "straggler": (
        on_rank(watched(), 5, "fsdp2", known_work_ms=1.4 * WORK_MS),
        "rank 5 is a straggler: a known computation, no other rank involved, takes it longer than the ranks' median "
        "(fsdp2 +40%; a straggler from +20%)",
    ),
}


@pytest.mark.parametrize("kind", BAD_NIGHTS)
def test_each_kind_makes_every_verdict_invalid(kind: str) -> None:
    """Every verdict of the job is INVALID, with a reason that names the rank, its device and the launch."""
    measurements, reason = BAD_NIGHTS[kind]
    judgements = [c.judgement for c in compare(measurements, accepted(NIGHT), gate_times=True)]
    assert {j.verdict for j in judgements} == {Verdict.INVALID}
    assert {j.reason for j in judgements} == {reason}


def test_quiet_night_is_judged() -> None:
    """Readings in which nothing happened change no verdict, and say who read them."""
    verdicts = {c.judgement.verdict for c in compare(watched(), accepted(NIGHT), gate_times=True)}
    assert verdicts == {Verdict.PASS}
    assert remarks(watched()) == [
        "devices: read through NVML, driver 580.65, in 18 launches",
        "slowest rank on a known computation: rank 7, +0.3% against the ranks' median",
    ]


def test_straggler_in_few_launches_is_left_to_the_interval() -> None:
    """A rank that was slow in one launch of six moves no arm's median, and the night counts; just beyond is not."""
    once = watched()
    slow = [r.model_copy(update={"known_work_ms": 9 * WORK_MS}) for r in once[0].ranks[:1]]
    once[0] = once[0].model_copy(update={"ranks": [*slow, *once[0].ranks[1:]]})
    assert invalid_reasons(once) == []
    for excess, count in ((STRAGGLER - 0.01, 0), (STRAGGLER + 0.01, 1)):
        ranks = [r.model_copy(update={"known_work_ms": WORK_MS * (1 + excess * (r.rank == 6))}) for r in once[1].ranks]
        night = [m.model_copy(update={"ranks": ranks}) for m in watched()]
        assert len(invalid_reasons(night)) == count, excess


def test_ranks_that_share_cores_are_shown_only() -> None:
    """On gloo the ranks take turns on a few cores: the slowest is named, and no night is INVALID for it."""
    rehearsal = on_rank(watched(Job()), 2, "fsdp2", known_work_ms=3 * WORK_MS)
    rehearsal = [m.model_copy(update={"telemetry": None}) for m in rehearsal]
    assert invalid_reasons(rehearsal) == []
    assert remarks(rehearsal) == [
        "slowest rank on a known computation: rank 2, +199.4% against the ranks' median (shown only: ranks share this "
        "machine's cores)"
    ]


def test_end_of_own_ranks_is_no_error() -> None:
    """Xid 45 is what the driver logs when the suite ends a rank: by itself it says nothing."""
    assert invalid_reasons(watched(xids=[45])) == []


def test_many_reasons_are_cut() -> None:
    """A night on which everything went wrong still has a reason that can be read."""
    devices = [DeviceReading(rank=r, name="GPU", throttled=["power brake"], xids=[31]) for r in range(8)]
    reasons = invalid_reasons([watched()[0].model_copy(update={"telemetry": Telemetry(source="x", devices=devices)})])
    assert len(reasons) == 9
    assert reasons[-1] == "and 8 more of the kind"
    for xids, cut in (([], []), ([31], ["and 1 more of the kind"])):
        few = [d.model_copy(update={"xids": xids if d.rank == 0 else []}) for d in devices]
        assert (
            invalid_reasons([watched()[0].model_copy(update={"telemetry": Telemetry(source="x", devices=few)})])[8:]
            == cut
        )


def test_launches_without_readings_are_counted() -> None:
    """A night of which a launch has lost its readings is judged by the others, and says so."""
    night = watched()
    night[3] = night[3].model_copy(update={"telemetry": None})
    assert remarks(night)[:2] == [
        "devices: 1 of 18 launches hold no readings of theirs",
        "devices: read through NVML, driver 580.65, in 17 launches",
    ]


@pytest.mark.parametrize(("count", "said"), [(1, []), (2, ["rank 1, +0.0% against the ranks' median"])])
def test_a_rank_is_slow_beside_others(count: int, said: list[str]) -> None:
    """One process has none to be slower than; of two the slower is named."""
    night = [m.model_copy(update={"ranks": m.ranks[:count]}) for m in watched()]
    assert [line.partition(": ")[2] for line in remarks(night) if "slowest" in line] == said


def test_straggler_of_a_single_launch_is_named() -> None:
    """One launch of an arm is its median."""
    night = on_rank(watched(replace(NIGHT, launches=1), launch=0), 5, "fsdp2", known_work_ms=1.4 * WORK_MS)
    assert [reason.partition(":")[0] for reason in invalid_reasons(night)] == ["rank 5 is a straggler"]


def test_bad_night_is_no_regression(judge: Judge) -> None:
    """fsdp2 14% slower because rank 3 was throttled: INVALID, from stored results too, and never REGRESSED."""
    save_results(judge.results, watched(slipped("fsdp2", step=1.14), throttled=["power brake"]))
    result = judge.judge()
    text = result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "REGRESSED" not in text
    assert "INVALID gpt2-rehearsal/fsdp2:ddp/step" in text
    assert "rank 3's NVIDIA H200 was throttled: power brake" in " ".join(text.split())


def test_bad_night_is_no_baseline(judge: Judge) -> None:
    """An update that is asked for on a bad night is refused."""
    before = (judge.baselines / f"{GPUS.key}.json").read_text()
    save_results(judge.results, watched(slipped("fsdp2", step=1.05), xids=[94]))
    result = judge.judge("--update-baselines", "--reason", "a night")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert (judge.baselines / f"{GPUS.key}.json").read_text() == before


def test_what_nobody_could_read_is_said_once(judge: Judge) -> None:
    """Without NVML the figures are judged all the same, and one line says what nobody looked at."""
    line = "clocks, errors: nvidia-ml-py is not installed"
    save_results(
        judge.results,
        [
            m.model_copy(update={"telemetry": Telemetry(source="torch", devices=[], unread=[line])})
            for m in replace(NIGHT, seed=1).measurements()
        ],
    )
    result = judge.judge()
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert result.outlines.count(f"devices: not read: {line}") == 1


def test_older_results_hold_no_readings(judge: Judge) -> None:
    """Launches that were stored before there were readings load and are judged; one line says they hold none."""
    result = judge.run(replace(NIGHT, seed=1))
    assert result.ret == pytest.ExitCode.OK
    assert result.outlines.count("devices: 18 of 18 launches hold no readings of theirs") == 1


def test_readings_survive_storage(judge: Judge) -> None:
    """What was read is stored with its launch, and loads as it was."""
    measurements = watched(foreign=["process 1 (a)"], ecc_errors=None)
    save_results(judge.results, measurements)
    assert load_results(judge.results) == measurements
