"""Why an update takes nothing, or not a case, and where a name would change that."""

from __future__ import annotations

from typing import Any

import pytest

from correctness_tests.suite.synthetic import CPU4, Job
from correctness_tests.suite.test_proposal_records import CASE, OLD, night, only
from fixtures.errors import UsageError
from fixtures.gate.comparisons import Comparison, compare
from fixtures.gate.proposals import Asked, propose, to_accept, uncommitted
from fixtures.gate.verdicts import Verdict
from fixtures.measurements import UserCode

pytestmark = pytest.mark.cpu


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


def test_an_unknown_deletion_lists_what_the_file_has() -> None:
    """And not what the night would add to it."""
    with pytest.raises(UsageError, match=r"no entry is called y, z\. The file has: none\."):
        propose(night(None), None, Asked("x", delete=frozenset({"z", "y"})))


def test_a_deletion_whose_reason_cannot_be_stored_is_refused() -> None:
    """By name, as an update is."""
    other = next(case_id for case_id in OLD.entries if case_id.endswith("step"))
    with pytest.raises(UsageError) as caught:
        propose(night(), OLD, Asked("x" * 1001, delete=frozenset({CASE, other})))
    said = "can't be stored: reason: String should have at most 1000 characters. Nothing was written."
    assert str(caught.value) == f"{other}, {CASE}: {said}"


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


@pytest.mark.parametrize(
    ("dirty", "code", "words"),
    [
        (None, None, ""),
        (False, None, ""),
        (True, None, "uncommitted changes"),
        (False, {"dirty": False}, ""),
        (None, {"dirty": None}, ""),
        (False, {"dirty": True}, "uncommitted changes of repo, where my_models lies"),
        (True, {"dirty": True}, "uncommitted changes"),
    ],
)
def test_uncommitted_code_is_called_by_its_place(dirty: bool | None, code: dict[str, Any] | None, words: str) -> None:
    """A user's by repository and module; the suite's own before it."""
    theirs = None if code is None else UserCode(module="my_models", repository="repo", **code)
    assert uncommitted(dirty, theirs) == words
    (row,) = propose(night(resident=1.05, dirty=dirty, user_code=theirs), OLD, Asked("x")).rows
    said = f"measured with {words}: commit them and measure again, or pass --allow-dirty" if words else ""
    assert row.note == said


def test_code_that_changed_meanwhile_is_dirty_where_it_is_meant() -> None:
    """Refused with its commits; taken with ``--allow-dirty``, and the entry says so."""
    (mixed,) = (c.model_copy(update={"mixed": "a / b"}) for c in night(resident=0.95, dirty=False))
    assert only(propose([mixed], OLD, Asked("x"))).note == "the code changed while it was measured: commits a / b"
    file = propose([mixed], OLD, Asked("x", allow_dirty=True)).file
    assert file is not None
    assert file.entries[CASE].provenance.dirty is True


def test_what_cannot_count_is_refused_with_its_verdict() -> None:
    """INVALID and INCONCLUSIVE, whatever is accepted by name."""
    invalid = [
        c.model_copy(update={"judgement": c.judgement.model_copy(update={"verdict": Verdict.INVALID, "reason": "why"})})
        for c in night()
    ]
    row = only(propose(invalid, OLD, Asked("x", frozenset({CASE}))))
    assert (row.action, row.note, row.unnamed) == ("refused", "INVALID: why", False)
