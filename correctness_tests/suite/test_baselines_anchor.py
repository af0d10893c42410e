"""Small slips add up: the anchor shows how far, and an update is held against it."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic import ARMS, WORKLOAD, Job, accepted
from fixtures.gate.baselines import BaselineFile
from fixtures.gate.comparisons import Comparison, compare
from fixtures.gate.proposals import Asked, ProposalRow, propose
from fixtures.gate.verdicts import Verdict
from fixtures.report.tables import proposal_notes, warnings

pytestmark = pytest.mark.cpu

CASE = "gpt2-rehearsal/fsdp2:ddp/resident"
FIRST = accepted()


def measured(factor: float, file: BaselineFile) -> list[Comparison]:
    """A night on which fsdp2 keeps this many times its first bytes, judged by the file."""
    job = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=factor)})
    return [c for c in compare(job.measurements(), file, True) if c.case.id == CASE]


def updated(factor: float, file: BaselineFile, *names: str) -> tuple[BaselineFile, ProposalRow]:
    """The file after an update to that night, and what became of the case."""
    proposal = propose(measured(factor, file), file, Asked("another slip", frozenset(names)))
    return proposal.file or file, proposal.rows[0]


def test_second_slip_of_five_percent_is_stopped() -> None:
    """Each passes the gate on its own; together they are 10.2%, and the second update is refused by name."""
    file, first = updated(1.05, FIRST)
    assert measured(1.05**2, file)[0].judgement.verdict is Verdict.PASS
    _, second = updated(1.05**2, file)
    assert (first.action, second.action) == ("updated", "refused")
    assert "small slips add up to 10.3%" in second.note
    assert f"--accept {CASE}" in second.note


def test_ten_slips_of_five_percent_are_seen_as_one_of_63() -> None:
    """Accepted by name wherever that is asked, the tenth still says +62.9% since the first, in report and proposal."""
    file, asked = FIRST, 0
    for slip in range(1, 10):
        after, row = updated(1.05**slip, file)
        if row.action == "refused":
            after, row = updated(1.05**slip, file, CASE)
            asked += 1
        file = after
    assert asked == 4
    night = measured(1.05**10, file)
    assert night[0].since_anchor == pytest.approx(1.05**10 - 1, abs=1e-5)
    assert any("+62.9% since 2026-05-02" in line for line in warnings(night))
    notes = " ".join(proposal_notes(propose(night, file, Asked("x", frozenset({CASE})))))
    assert "since the anchor +62.9%" in notes


def test_acceptance_by_name_is_kept() -> None:
    """What was accepted by name says so in the file, and is what the next slip is held against."""
    file, _ = updated(1.2, FIRST, CASE)
    assert file.entries[CASE].provenance.accepted is True
    assert updated(1.2 * 1.05, file)[1].action == "updated"
    assert updated(1.2 * 1.05**2, updated(1.2 * 1.05, file)[0])[1].action == "refused"


def test_real_improvement_moves_the_anchor() -> None:
    """After 20% fewer bytes, going halfway back is a regression, not slack; a small gain moves nothing."""
    better, _ = updated(0.8, FIRST)
    assert better.entries[CASE].origin.ratio == pytest.approx(0.8 * 2 / 12, rel=1e-5)
    assert updated(0.8 * 1.11, better)[1].action == "refused"
    assert updated(0.97, FIRST)[0].entries[CASE].origin.ratio == pytest.approx(2 / 12, rel=1e-5)


def test_other_workload_starts_anew() -> None:
    """A case of another shape has its own anchor."""
    job = Job(workload=WORKLOAD.model_copy(update={"shape_hash": "new"}))
    file = propose(compare(job.measurements(), FIRST, True), FIRST, Asked("wider")).file
    assert file is not None
    assert file.entries[CASE].anchor is None
