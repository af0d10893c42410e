"""Property: each account of a job is held against shapes, N and the bandwidth table; off by 10%, it is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from correctness_tests.suite.judging import GPUS, NIGHT, Judge, judge
from correctness_tests.suite.synthetic import ARMS, CPU4, Figures, Job, accepted
from fixtures import ledger
from fixtures.accounts import Account
from fixtures.bandwidth import Bandwidth, BandwidthTable
from fixtures.gate.comparisons import compare
from fixtures.gate.proposals import Asked, propose
from fixtures.gate.verdicts import Verdict
from fixtures.job_accounts import account_complaints, account_notes, job_accounts
from fixtures.machine_accounts import ON_THE_HOST, Tables
from fixtures.measurements import CollectiveTally, Measurement, PlatformRecord, UnitRecord, WorkloadRecord
from fixtures.report.results import save_results

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

UNITS = [
    UnitRecord(name="block", count=4, parameters={"weight": [1024, 1024], "bias": [1024]}),
    UnitRecord(name="root", parameters={"embedding": [512, 1024]}),
]
PSI = 4 * (1024 * 1024 + 1024) + 512 * 1024
MODEL = WorkloadRecord(name="gpt2-rehearsal", num_params=PSI, tokens_per_batch=256, shape_hash="abc123", units=UNITS)
GATHERED = 4 * 2 * (1024 * 1024 + 1024)
TALLY = CollectiveTally(kind="all-reduce", dtype="float32", count=1, bytes=1000)
TABLE = BandwidthTable(
    source="measured",
    world_size=8,
    rows=[
        Bandwidth(kind="all-reduce", dtype="float32", bytes=4 * PSI, gb_per_s=1.0),
        Bandwidth(kind="all-gather", dtype="bfloat16", bytes=GATHERED // 4, gb_per_s=0.5),
    ],
)
REDUCED_MS, GATHERED_MS = 4 * PSI / 1e6, GATHERED / 0.5e6


def held(arm: str) -> int:
    """Bytes that the ledger has rank 0 hold on its device."""
    buffers = ledger.resident_buffers(arm, MODEL.unit_shapes, 8, 0)
    return sum(size for name, size in buffers.items() if name not in ON_THE_HOST)


EXACT = {
    "ddp": Figures(held("ddp"), 80_000_000, 100.0 + REDUCED_MS),
    "fsdp2": Figures(held("fsdp2"), 40_000_000, 200.0),
    "fsdp2-noreshard": Figures(held("fsdp2"), 40_000_000 + GATHERED, 200.0 - GATHERED_MS),
    "single": Figures(held("single"), 70_000_000, 100.0),
}


def launches(
    slips: Mapping[str, Figures] | None = None, platform: PlatformRecord = GPUS, arms: Sequence[str] = tuple(EXACT)
) -> list[Measurement]:
    """Launches whose every account is exact, but for what slipped."""
    job = Job(arms={arm: (slips or {}).get(arm, EXACT[arm]) for arm in arms}, platform=platform, workload=MODEL)
    return [
        m.model_copy(update={"ranks": [r.model_copy(update={"ledger_collectives": [TALLY]}) for r in m.ranks]})
        for m in job.measurements()
    ]


def accounts(measurements: Sequence[Measurement]) -> dict[str, Account]:
    """Every account by name, with what a night of exact accounts has accepted."""
    baseline = accepted(Job(arms={arm: EXACT[arm] for arm in EXACT}, platform=GPUS, workload=MODEL))
    compared = compare(measurements, baseline, gate_times=True)
    return {a.name: a for a in job_accounts(measurements, compared, Tables(TABLE, TABLE))}


def test_exact_launches_leave_nothing_unexplained() -> None:
    """Resident, exposed communication, the knob's time and its memory are the ledger's to the byte and the ms."""
    found = accounts(launches())
    names = ["resident, ddp", "resident, fsdp2", "exposed, ddp", "step saved by no reshard", "peak paid for no reshard"]
    assert {name: found[name].difference for name in names} == {name: pytest.approx(0, abs=1e-9) for name in names}
    assert found["exposed, ddp"].ledger == pytest.approx(REDUCED_MS)
    assert found["step saved by no reshard"].ledger == pytest.approx(GATHERED_MS)
    assert not [a.name for a in found.values() if a.off and not a.name.startswith("messages")]


@pytest.mark.parametrize(
    ("arm", "slip", "name"),
    [
        ("fsdp2", {"resident": 1.12}, "resident, fsdp2"),
        ("ddp", {"resident": 0.88}, "resident, ddp"),
        ("fsdp2-noreshard", {"peak": 1.05}, "peak paid for no reshard"),
        ("fsdp2-noreshard", {"step": 0.9}, "step saved by no reshard"),
        ("ddp", {"step": 1.12}, "exposed, ddp"),
        ("single", {"step": 0.9}, "exposed, ddp"),
    ],
)
def test_an_account_that_slips_fails(arm: str, slip: dict[str, float], name: str) -> None:
    """An account off by more than 10%, which was exact when it was accepted, fails, with the bytes or ms."""
    found = accounts(launches({arm: EXACT[arm].scaled(**slip)}))
    (line,) = [line for line in account_complaints(list(found.values()), "here") if f"off: {name} on here" in line]
    assert f"{found[name].unexplained} not explained; when it was accepted it was +0.0% off" in line


def test_an_account_that_was_off_is_reported_only() -> None:
    """What was accepted although it was off by more than 10% is reported and fails nothing."""
    was = Account(name="peak", unit="MiB", ledger=10.0, measured=14.0, accepted=13.5)
    assert account_complaints([was], "here") == []
    assert account_notes([was]) == ["account peak: +40.0%, +4 MiB not explained"]


def test_a_slower_network_explains_a_slower_step() -> None:
    """What was accepted is held against the network of then: a step that moved with the table is not off."""
    half = TABLE.model_copy(update={"rows": [r.model_copy(update={"gb_per_s": r.gb_per_s / 2}) for r in TABLE.rows]})
    slow = launches({"ddp": EXACT["ddp"].scaled(step=(100 + 2 * REDUCED_MS) / (100 + REDUCED_MS))})
    (exposed,) = [a for a in job_accounts(slow, (), Tables(half, TABLE)) if a.name == "exposed, ddp"]
    assert exposed.difference == pytest.approx(0)
    assert exposed.accepted_ledger == pytest.approx(REDUCED_MS)


def test_exposed_communication_needs_one_device_alone() -> None:
    """Without the arm single there is no measured figure, and the reason is said."""
    found = accounts(launches(arms=("ddp", "fsdp2")))
    assert found["exposed, ddp"].measured is None
    assert "account exposed, ddp: needs the arm single, which this job did not launch" in account_notes(
        list(found.values())
    )


SOME_ROUNDS = [m for m in launches() if m.strategy != "single" or m.launch in (0, 2, 4)]
"""A job's launches as they are: the arm alone in some of the rounds."""


def test_the_arm_alone_is_stored_and_never_gated() -> None:
    """Three launches of it beside six: a sound ratio, which an update stores, and which fails nothing however far."""
    file = propose(compare(SOME_ROUNDS, None, gate_times=True), None, Asked("first")).file
    assert file is not None
    assert file.entries["gpt2-rehearsal/ddp:single/step"].pairs == 3
    slow = [m for m in launches({"single": EXACT["single"].scaled(step=2)}) if m.launch in (0, 2, 4)]
    (pair,) = [c for c in compare(slow, file, gate_times=True) if c.case.denominator == "single"]
    assert (pair.judgement.verdict, pair.gated, pair.fails) == (Verdict.IMPROVED, False, False)


def test_the_arm_alone_is_held_against_all_launches_of_ddp() -> None:
    """What was accepted of it in some rounds is what its account is judged by."""
    assert accounts(SOME_ROUNDS)["exposed, ddp"].accepted_difference == pytest.approx(0)


def test_on_a_cpu_the_arm_alone_is_not_stored() -> None:
    """Times of a rehearsal are shown: an update skips them all."""
    rows = propose(compare(SOME_ROUNDS, None, gate_times=False), None, Asked("first")).rows
    assert {row.action for row in rows if row.case_id.endswith("/step")} == {"skipped"}


def test_a_model_of_ones_own_has_no_account_of_the_arm_alone() -> None:
    """Of a workload whose messages the ledger does not know it says nothing, whatever arm was launched."""
    bare = [
        m.model_copy(update={"ranks": [r.model_copy(update={"ledger_collectives": []}) for r in m.ranks]})
        for m in SOME_ROUNDS
    ]
    assert job_accounts(bare, (), Tables(TABLE)) == []


def test_times_of_a_cpu_are_shown_only() -> None:
    """Ranks that share cores say nothing of a network: the note says so, and nothing was accepted to fail by."""
    found = job_accounts(launches(platform=CPU4.model_copy(update={"world_size": 8})), (), Tables(TABLE))
    times = [a for a in found if a.unit == "ms"]
    assert len(times) == 2
    assert all("shown only" in a.note and not a.fails for a in times)


def test_an_account_that_is_off_fails_the_session(judge: Judge) -> None:
    """Both arms hold 12% more, so no ratio of resident memory moves: the accounts see it, and name both."""
    night = replace(NIGHT, arms={arm: EXACT[arm] for arm in ARMS}, workload=MODEL)
    judge.accept(accepted(night))
    both = {arm: EXACT[arm].scaled(resident=1.12) for arm in ARMS}
    save_results(judge.results, launches(both, arms=tuple(ARMS)))
    result = judge.judge("-k", "resident")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes().get("failed", 0) == 0
    result.stdout.fnmatch_lines(["ERROR: account off: resident, ddp on cuda-nccl-8--test-gpu: *+12.0%*not explained*"])
