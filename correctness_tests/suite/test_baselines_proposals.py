"""A proposal takes what the evidence carries, refuses the rest by name, and touches nothing else."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic import ARMS, STACK, WORKLOAD, Figures, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import MAX_HISTORY, BaselineFile
from fixtures.gate.comparisons import RANK0_ONLY, compare
from fixtures.gate.proposals import Asked, Proposal, propose
from fixtures.measurements import PlatformRecord

pytestmark = pytest.mark.cpu

OLD = accepted()
CASE = "gpt2-rehearsal/fsdp2:ddp/resident"
TIME = "gpt2-rehearsal/fsdp2:ddp/step"


def proposed(
    job: Job, old: BaselineFile | None = OLD, accept: frozenset[str] = frozenset(), times: bool = True
) -> Proposal:
    """What a job's comparisons would make of the old file."""
    return propose(compare(job.measurements(), old, times), old, Asked("torch 2.14.1", accept))


def slipped(**slips: Figures) -> Job:
    """A job with slips planted, on a later stack."""
    return Job({**ARMS, **slips}, stack=STACK.model_copy(update={"torch": "2.14.1"}))


def action(proposal: Proposal, case_id: str) -> str:
    """What becomes of a case, with the reason why not."""
    row = next(row for row in proposal.rows if row.case_id == case_id)
    return f"{row.action}: {row.note}" if row.note else row.action


def test_first_proposal_is_all_new() -> None:
    """Without a file every case is new, with the measured ratio, both arms, the interval and the evidence."""
    proposal = proposed(Job(), None)
    assert {row.action for row in proposal.rows} == {"new"}
    assert proposal.file is not None
    entry = proposal.file.entries[CASE]
    assert (entry.ratio, entry.pairs, entry.numerator.value, entry.denominator.unit) == (2 / 12, 6, 2.0, "GiB")
    assert (entry.provenance.reason, entry.provenance.stack.torch, entry.history) == ("torch 2.14.1", "2.13.0", [])


def test_small_move_is_updated() -> None:
    """A move within the tolerance is written, and the old figures go to the history."""
    file = proposed(slipped(fsdp2=ARMS["fsdp2"].scaled(resident=1.05))).file
    assert file is not None
    entry = file.entries[CASE]
    assert [entry.ratio, entry.history[0].ratio] == pytest.approx([2.1 / 12, 2 / 12])
    assert (entry.provenance.stack.torch, entry.history[0].provenance.stack.torch) == ("2.14.1", "2.13.0")


def test_same_figures_change_nothing() -> None:
    """Measuring the same again on the same stack proposes no file: no churn in the diff."""
    proposal = proposed(Job(date="2027-01-01"))
    assert ({row.action for row in proposal.rows}, proposal.file) == ({"unchanged"}, None)


def test_regression_is_refused() -> None:
    """More than 10% worse is refused, says how to accept it by name, and the entry stays."""
    proposal = proposed(slipped(fsdp2=ARMS["fsdp2"].scaled(resident=1.2)))
    assert f"--accept {CASE}" in action(proposal, CASE)
    assert [row.case_id for row in proposal.refused] == [CASE]
    assert proposal.file is not None
    assert proposal.file.entries[CASE] == OLD.entries[CASE]


def test_regression_is_accepted_by_name() -> None:
    """Named, the regression is written, with the reason."""
    proposal = proposed(slipped(fsdp2=ARMS["fsdp2"].scaled(resident=1.2)), accept=frozenset({CASE}))
    assert action(proposal, CASE) == "updated"


def test_improvement_needs_no_name() -> None:
    """A reason is enough to accept what got better."""
    assert action(proposed(slipped(fsdp2=ARMS["fsdp2"].scaled(resident=0.8))), CASE) == "updated"


@pytest.mark.parametrize("old", [OLD, None], ids=["judged", "first"])
def test_noise_is_refused(old: BaselineFile | None) -> None:
    """A time too noisy to gate is refused, with or without a baseline before it; bytes are not."""
    proposal = proposed(Job(own_sd=0.3, stack=STACK.model_copy(update={"torch": "2.14.1"})), old)
    assert "too noisy" in action(proposal, TIME)
    assert action(proposal, CASE) in ("new", "updated")


@pytest.mark.parametrize("old", [OLD, None], ids=["judged", "first"])
def test_two_pairs_are_refused(old: BaselineFile | None) -> None:
    """Fewer than 3 pairs never become a baseline."""
    assert "2 pairs" in action(proposed(Job(launches=2), old), CASE)


def test_invalid_is_refused() -> None:
    """Launches that don't belong together never become a baseline."""
    launches = [m for m in Job().measurements() if (m.strategy, m.launch) != ("ddp", 3)]
    proposal = propose(compare(launches, OLD, True), OLD, Asked("x"))
    assert action(proposal, CASE).startswith("refused: INVALID: launch 3 of fsdp2 has no partner")


def test_csv_rows_are_refused() -> None:
    """Rows of a CSV hold neither the stack nor every rank: judged, never accepted."""
    launches = [
        m.model_copy(update={"provenance": m.provenance.model_copy(update={"controls": {RANK0_ONLY: "a CSV"}})})
        for m in Job().measurements()
    ]
    assert "read from a CSV" in action(propose(compare(launches, OLD, True), OLD, Asked("x")), CASE)


def test_ungated_times_are_skipped() -> None:
    """A rehearsal's times are not stored."""
    proposal = proposed(slipped(), times=False)
    assert (action(proposal, TIME).split(":")[0], action(proposal, CASE)) == ("skipped", "updated")


def test_only_compared_cases_change() -> None:
    """Cases that were not compared stay as they were."""
    chosen = [c for c in compare(slipped().measurements(), OLD, True) if c.case.id == CASE]
    file = propose(chosen, OLD, Asked("x")).file
    assert file is not None
    assert {k for k in OLD.entries if file.entries[k] != OLD.entries[k]} == {CASE}


def test_changed_workload_replaces_its_entry() -> None:
    """An entry of another shape is replaced without being accepted by name, and kept in the history."""
    job = Job(
        {**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=2)}, workload=WORKLOAD.model_copy(update={"shape_hash": "new"})
    )
    file = proposed(job).file
    assert file is not None
    assert (file.entries[CASE].workload.shape_hash, file.entries[CASE].history[0].workload.shape_hash) == (
        "new",
        "abc123",
    )


def test_history_keeps_the_newest_and_the_first() -> None:
    """The history is bounded, and its oldest entry is never the one that goes."""
    file = OLD
    for i in range(MAX_HISTORY + 5):
        next_file = proposed(Job({**ARMS, "ddp": ARMS["ddp"].scaled(resident=1 + i / 1000)}), file).file
        file = next_file or file
    history = file.entries[CASE].history
    assert (len(history), history[-1].ratio) == (MAX_HISTORY, OLD.entries[CASE].ratio)


def test_baseline_of_a_family_seeds_nothing() -> None:
    """Where a family's published file judged, the machine gets a file of its own with what was measured."""
    machine = PlatformRecord(device_type="cuda", backend="nccl", world_size=8, machine="card-server")
    family = machine.model_copy(update={"machine": "card"})
    published = OLD.model_copy(update={"platform": family, "match": "prefix"})
    proposal = proposed(Job(platform=machine), published)
    assert proposal.file is not None
    assert (proposal.file.platform, proposal.file.match, proposal.replaces) == (machine, "exact", None)


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_reason_is_required(reason: str) -> None:
    """No reason, no baseline."""
    with pytest.raises(UsageError, match="--reason"):
        propose(compare(Job().measurements(), OLD, True), OLD, Asked(reason))


def test_planted_fault_is_refused() -> None:
    """What was measured under a patch on the ranks never becomes a baseline."""
    with pytest.raises(UsageError, match=r"faults\.leak:plant"):
        proposed(Job(rank_patch="faults.leak:plant"))


def test_unknown_name_is_refused() -> None:
    """A misspelled --accept is an error that lists what was compared, not a silent no-op."""
    with pytest.raises(UsageError, match=f"no case is called nonsense.*{CASE}"):
        proposed(Job(), accept=frozenset({"nonsense"}))


def test_unstorable_text_is_refused() -> None:
    """A reason beyond the bound is a UsageError naming the case and the field."""
    one = [c for c in compare(Job().measurements(), None, True) if c.case.id == CASE]
    with pytest.raises(UsageError, match=f"^{CASE}: can't be stored: reason: "):
        propose(one, None, Asked("x" * 2000))
