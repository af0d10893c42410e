"""What a proposal writes down of a case: its evidence, its anchor, what was before it, and what became of it."""

from __future__ import annotations

from typing import Any

import pytest

from correctness_tests.suite.synthetic import ARMS, CPU4, STACK, Job, accepted
from fixtures.gate.baselines import MAX_HISTORY, Anchor, BaselineFile
from fixtures.gate.comparisons import Comparison, compare
from fixtures.gate.proposals import Action, Asked, Proposal, ProposalRow, propose
from fixtures.measurements import UserCode

pytestmark = pytest.mark.cpu

CASE = "gpt2-rehearsal/fsdp2:ddp/resident"
TIME = "gpt2-rehearsal/fsdp2:ddp/step"
OLD = accepted()


def night(old: BaselineFile | None = OLD, *, resident: float = 1.0, **provenance: Any) -> list[Comparison]:
    """One case of a night on which fsdp2 holds that many times its bytes."""
    launches = [
        m.model_copy(update={"provenance": m.provenance.model_copy(update=provenance)})
        for m in Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=resident)}).measurements()
    ]
    return [c for c in compare(launches, old, True) if c.case.id == CASE]


def only(proposal: Proposal) -> ProposalRow:
    """The one row."""
    (row,) = proposal.rows
    return row


def test_an_entry_holds_its_evidence() -> None:
    """Ratio, interval, launches, by whom and why, in units that read well; the usual confidence is not told."""
    code = UserCode(module="my_models", repository="repo", commit="def", dirty=False)
    file = propose(night(None, commit="abc", dirty=False, user_code=code), None, Asked(" first ")).file
    assert file is not None
    entry = file.entries[CASE]
    assert (entry.low, entry.high, entry.pairs, entry.confidence) == (2 / 12, 2 / 12, 6, None)
    assert (entry.numerator.value, entry.numerator.unit, entry.denominator.value) == (2.0, "GiB", 12.0)
    told = entry.provenance
    assert (told.source, told.reason, told.commit, told.dirty, told.launches) == ("measured", "first", "abc", False, 6)
    assert (told.date, told.user_code) == (Job().date, code)
    assert (told.accepted, entry.anchor, entry.history, entry.nights) == (None, None, [], [[2 / 12] * 6])


def test_more_looks_are_told_by_their_confidence() -> None:
    """An interval that had to hold over several looks says so."""
    launches = [m.model_copy(update={"looks": 2}) for m in Job().measurements()]
    file = propose(compare(launches, None, True), None, Asked("x")).file
    assert file is not None
    assert file.entries[CASE].confidence == 0.975


def test_an_improvement_beyond_the_tolerance_is_the_new_anchor() -> None:
    """Within it the anchor stays the first figure, with its date and reason."""
    anchors = []
    for factor in (0.89, 0.91):
        file = propose(night(resident=factor), OLD, Asked("less")).file
        assert file is not None
        anchors.append(file.entries[CASE].anchor)
    assert anchors == [None, Anchor(ratio=2 / 12, date=Job().date, reason="the first night")]


def test_slips_that_add_up_are_told_with_both_sums() -> None:
    """Since it was last accepted by name, and since the anchor; an entry without a date says that."""
    entry = OLD.entries[CASE]
    anchor = Anchor(ratio=entry.ratio / 1.2, reason="then")
    named = entry.provenance.model_copy(update={"accepted": True})
    before = entry.model_copy(update={"ratio": entry.ratio * 1.05, "low": entry.low, "anchor": anchor})
    before = before.model_copy(
        update={"high": entry.ratio * 1.05, "nights": [], "history": [entry.model_copy(update={"provenance": named})]}
    )
    file = OLD.model_copy(update={"entries": {CASE: before}})
    row = only(propose(night(file, resident=1.12), file, Asked("x")))
    assert (row.action, row.unnamed) == ("refused", True)
    assert row.note == (
        "small slips add up to 12.0%, more than 10% (+34.4% since the anchor of an unknown date); to accept it: "
        f"--accept {CASE}"
    )
    assert row.since_anchor == pytest.approx(0.344)
    taken = only(propose(night(file, resident=1.12), file, Asked("x", frozenset({CASE}))))
    assert (taken.action, taken.note) == ("updated", "")


def test_exactly_the_tolerance_since_the_floor_is_taken() -> None:
    """10% in all, which binary fractions say is 0.10000000000000009."""
    assert only(propose(night(resident=1.1), OLD, Asked("x"))).action == "updated"


def test_a_row_has_old_and_new_beside_each_other() -> None:
    """Whatever becomes of the case; what is refused for its evidence, too noisy a time, is not helped by a name."""
    (shown,) = (c for c in compare(Job().measurements(), OLD, False) if c.case.id == TIME)
    (noisy,) = (c for c in compare(Job(own_sd=0.3).measurements(), OLD, True) if c.case.id == TIME)
    (same,), (better,), (worse,) = night(), night(resident=0.95), night(resident=1.2)
    why = f"{worse.judgement.reason}; to accept it: --accept {CASE}"
    rows: list[tuple[Comparison, Action, str]] = [
        (shown, "skipped", "not gated here, so nothing is stored"),
        (noisy, "refused", f"INCONCLUSIVE: {noisy.judgement.reason}"),
        (same, "unchanged", ""),
        (better, "updated", ""),
        (worse, "refused", why),
    ]
    for one, action, note in rows:
        row = only(propose([one], OLD, Asked("x")))
        expected = ProposalRow(one.case.id, OLD.entries[one.case.id], one, action, note, unnamed=one is worse)
        assert row == expected


def test_a_proposal_says_what_it_was_made_from() -> None:
    """The file whose place it is to take."""
    assert propose(night(resident=0.95), OLD, Asked("x")).replaces == OLD


def test_what_comes_after_a_deletion_is_updated() -> None:
    """A case that is deleted by name stores nothing of what was measured; the next ones do."""
    found = compare(Job(stack=STACK.model_copy(update={"torch": "2.14.1"})).measurements(), OLD, True)
    first = min(c.case.id for c in found)
    proposal = propose(found, OLD, Asked("x", delete=frozenset({first})))
    assert proposal.file is not None
    assert first not in proposal.file.entries
    actions = [row.action for row in proposal.rows]
    assert actions == ["updated"] * (len(found) - 1) + ["deleted"]


def test_a_first_figure_has_no_anchor_to_be_held_against() -> None:
    """No entry, or one of another subject."""
    assert only(propose(night(None), None, Asked("x"))).since_anchor is None
    assert only(propose(night(None), OLD, Asked("x"))).since_anchor is None
    assert only(propose(night(), OLD, Asked("x"))).since_anchor == 0.0
    other = CPU4.model_copy(update={"machine": "epyc"})
    elsewhere = [c.model_copy(update={"platform": other}) for c in night()]  # judged by a file of its kind
    assert only(propose(elsewhere, OLD, Asked("x"))).since_anchor is None
    invalid = [c.model_copy(update={"estimate": None}) for c in night()]
    assert only(propose(invalid, OLD, Asked("x"))).since_anchor is None


def test_the_history_is_bounded_and_keeps_the_first() -> None:
    """One more than it holds: the newest come in, the very first stays."""
    entry = OLD.entries[CASE]
    past = [entry.model_copy(update={"history": [], "nights": [], "anchor": None}) for _ in range(MAX_HISTORY)]
    numbered = [
        p.model_copy(update={"provenance": p.provenance.model_copy(update={"reason": f"r{i}"})})
        for i, p in enumerate(past)
    ]
    for kept, expected in ((MAX_HISTORY, MAX_HISTORY), (MAX_HISTORY - 1, MAX_HISTORY), (1, 2)):
        full = entry.model_copy(update={"history": numbered[:kept]})
        file = propose(night(resident=1.02), OLD.model_copy(update={"entries": {CASE: full}}), Asked("x")).file
        assert file is not None
        reasons = [old.provenance.reason for old in file.entries[CASE].history]
        assert (len(reasons), reasons[0], reasons[1], reasons[-1]) == (
            expected,
            "the first night",
            "r0",
            f"r{kept - 1}",
        )


def test_figures_of_another_platform_make_a_file_of_its_own() -> None:
    """What judged stays where it is; the new file begins with the measured platform alone."""
    other = CPU4.model_copy(update={"machine": "epyc"})
    kind = OLD.model_copy(update={"platform": CPU4.model_copy(update={"machine": "ep"})})
    made = propose([c.model_copy(update={"platform": other}) for c in night(None)], kind, Asked("x"))
    assert (made.platform, made.replaces) == (other, None)
    assert made.file is not None
    assert (made.file.platform, list(made.file.entries), made.file.match) == (other, [CASE], "exact")


def test_deletions_are_listed_newest_first() -> None:
    """With what each was worth; what was deleted before stays listed."""
    first = propose(night(), OLD, Asked(" gone ", delete=frozenset({CASE})))
    assert first.file is not None
    (row,) = first.rows
    assert (row.case_id, row.action, row.note) == (CASE, "deleted", " gone ")
    assert (row.old, row.comparison, row.since_anchor) == (OLD.entries[CASE], None, None)
    other = next(case_id for case_id in first.file.entries if case_id.endswith("step"))
    second = propose(night(first.file), first.file, Asked("too", delete=frozenset({other}))).file
    assert second is not None
    assert [(d.case, d.reason, d.date) for d in second.deleted] == [
        (other, "too", Job().date),
        (CASE, "gone", Job().date),
    ]
