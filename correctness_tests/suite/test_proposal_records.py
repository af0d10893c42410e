"""What a proposal writes down of a case: its evidence, its anchor, what was before it, and why a case is not taken."""

from __future__ import annotations

from typing import Any

import pytest

from correctness_tests.suite.synthetic import ARMS, CPU4, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import MAX_HISTORY, Anchor, BaselineFile
from fixtures.gate.comparisons import Comparison, compare
from fixtures.gate.proposals import Asked, Proposal, ProposalRow, propose, to_accept
from fixtures.gate.verdicts import Verdict

pytestmark = pytest.mark.cpu

CASE = "gpt2-rehearsal/fsdp2:ddp/resident"
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


@pytest.mark.parametrize(
    ("asked", "comparisons", "words"),
    [
        (Asked(" "), [], 'a baseline needs a reason: pass --reason "why these figures are right".'),
        (Asked("x"), [], "nothing was compared, so there is no baseline to propose."),
        (
            Asked("x"),
            night(rank_patch="slow"),
            "measured with a patch on the ranks (slow): this never becomes a baseline.",
        ),
        (
            Asked("x"),
            night(planned=18),
            "measured by a session that did not end: no baseline is made of what it happened to reach.",
        ),
        (
            Asked("x", accept=frozenset({"b", "a"})),
            night(),
            f"no case is called a, b. This session compared: {CASE}.",
        ),
    ],
)
def test_what_cannot_be_proposed_is_said(asked: Asked, comparisons: list[Comparison], words: str) -> None:
    """Before any case is looked at."""
    with pytest.raises(UsageError) as caught:
        propose(comparisons, OLD, asked)
    assert str(caught.value) == words


def test_one_platform_at_a_time() -> None:
    """Both are named."""
    other = compare(Job(platform=CPU4.model_copy(update={"world_size": 2})).measurements(), None, True)
    with pytest.raises(UsageError, match=r"measured on cpu-gloo-2, cpu-gloo-4: one platform at a time\."):
        propose([*night(), *other], OLD, Asked("x"))


def test_an_entry_holds_its_evidence() -> None:
    """Ratio, interval, launches, by whom and why, in units that read well; the usual confidence is not told."""
    file = propose(night(None, commit="abc", dirty=False), None, Asked(" first ")).file
    assert file is not None
    entry = file.entries[CASE]
    assert (entry.low, entry.high, entry.pairs, entry.confidence) == (2 / 12, 2 / 12, 6, None)
    assert (entry.numerator.value, entry.numerator.unit, entry.denominator.value) == (2.0, "GiB", 12.0)
    told = entry.provenance
    assert (told.source, told.reason, told.commit, told.dirty, told.launches) == ("measured", "first", "abc", False, 6)
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


def test_a_first_figure_has_no_anchor_to_be_held_against() -> None:
    """No entry, or one of another subject."""
    assert only(propose(night(None), None, Asked("x"))).since_anchor is None
    assert only(propose(night(None), OLD, Asked("x"))).since_anchor is None
    assert only(propose(night(), OLD, Asked("x"))).since_anchor == 0.0


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
    assert (row.action, row.note, row.old, row.comparison) == ("deleted", " gone ", OLD.entries[CASE], None)
    other = next(case_id for case_id in first.file.entries if case_id.endswith("step"))
    second = propose(night(first.file), first.file, Asked("too", delete=frozenset({other}))).file
    assert second is not None
    assert [(d.case, d.reason, d.date) for d in second.deleted] == [
        (other, "too", Job().date),
        (CASE, "gone", Job().date),
    ]


def test_an_unknown_deletion_lists_what_the_file_has() -> None:
    """And not what the night would add to it."""
    with pytest.raises(UsageError, match=r"no entry is called y, z\. The file has: none\."):
        propose(night(None), None, Asked("x", delete=frozenset({"z", "y"})))


@pytest.mark.parametrize(
    ("comparisons", "answer"),
    [
        (night(), (False, [])),
        (night(resident=1.2), (True, [CASE])),
        (night(resident=0.8), (True, [])),
        (night(None), (True, [])),
        (night(resident=1.2, rank_patch="slow"), (False, [])),
        (night(resident=1.2, planned=18), (False, [])),
    ],
)
def test_an_update_takes_freely_what_is_new_or_better(
    comparisons: list[Comparison], answer: tuple[bool, list[str]]
) -> None:
    """What is worse it takes by name; nothing under a planted fault, and nothing where nothing fails."""
    assert to_accept(comparisons, None) == answer


def test_what_was_refused_for_another_reason_no_name_helps() -> None:
    """After an update: only what lacks its name is asked for again."""
    worse = night(resident=1.2)
    unnamed = propose(worse, OLD, Asked("x"))
    dirty = propose(night(resident=1.2, dirty=True), OLD, Asked("x"))
    assert (to_accept(worse, unnamed), to_accept(worse, dirty)) == ((True, [CASE]), (False, []))
    assert only(dirty).note == "measured with uncommitted changes: commit them and measure again, or pass --allow-dirty"
    assert only(unnamed).workload == "gpt2-rehearsal"


def test_what_cannot_count_is_refused_with_its_verdict() -> None:
    """INVALID and INCONCLUSIVE, whatever is accepted by name."""
    invalid = [
        c.model_copy(update={"judgement": c.judgement.model_copy(update={"verdict": Verdict.INVALID, "reason": "why"})})
        for c in night()
    ]
    row = only(propose(invalid, OLD, Asked("x", frozenset({CASE}))))
    assert (row.action, row.note, row.unnamed) == ("refused", "INVALID: why", False)
