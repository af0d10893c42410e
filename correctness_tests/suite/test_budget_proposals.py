"""What an update makes of budgets: which are taken, which refused and why, and what an entry then says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from correctness_tests.suite.synthetic_budgets import (
    MODEL,
    TORCH13,
    TORCH14,
    accepted,
    case,
    host,
    judged,
    memory,
    provenance,
    reading,
)
from fixtures.errors import UsageError
from fixtures.gate.budget_proposals import BudgetProposal, is_budget, propose_budgets, stale_keys
from fixtures.gate.budget_verdicts import JudgedBudget, judge_budget
from fixtures.gate.budgets import LOOP, BudgetEntry, BudgetFile, Floor, PastBudget
from fixtures.gate.entries import MAX_HISTORY, StoredStack
from fixtures.gate.proposals import Asked
from fixtures.measurements import UserCode
from fixtures.session.budgets import PLATFORM

pytestmark = pytest.mark.cpu

OLD = accepted()
MEMORY = "mlp/fsdp2/memory"
HOST = "mlp/fsdp2/host/torch-2.13-python-3.11"
TRAFFIC = "mlp/fsdp2/traffic"


def read(file: BudgetFile | None = OLD, *, peak: int = 8192, **changes: Any) -> JudgedBudget:
    """The memory of a step whose provenance is changed so."""
    told = provenance().model_copy(update=changes)
    return judge_budget(case("memory"), memory(peak=peak), MODEL, told, file)


def calls(file: BudgetFile, forward: int, backward: int = 2000) -> JudgedBudget:
    """The calls of a step."""
    return judged("host", host(forward=forward, backward=backward), file)


def propose(*judged: JudgedBudget, old: BudgetFile | None = OLD, **asked: Any) -> BudgetProposal:
    """An update that is asked for these."""
    return propose_budgets(judged, PLATFORM, old, Asked(asked.pop("reason", "why"), **asked))


def entry_of(proposal: BudgetProposal, key: str = MEMORY) -> BudgetEntry:
    """An entry of the proposed file."""
    assert proposal.file is not None
    return proposal.file.entries[key]


def stored(key: str, **changes: Any) -> BudgetFile:
    """What is accepted, one entry changed."""
    entries = {**OLD.entries, key: OLD.entries[key].model_copy(update=changes)}
    return OLD.model_copy(update={"entries": entries})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("mlp/fsdp2/host", True),
        (HOST, True),
        ("mlp/*", True),
        ("*", True),
        ("mlp/fsdp?/step", True),
        ("gpt2-large/fsdp2:ddp/resident", False),
        ("host/fsdp2:ddp/step", False),
    ],
)
def test_a_name_is_a_budgets_or_the_gpu_tiers(name: str, known: bool) -> None:
    """A case of a budget, its entry's key, and every pattern, is the cpu tier's; a ratio is not."""
    assert is_budget(name) is known


def test_a_row_says_what_becomes_of_each_reading() -> None:
    """New, updated, unchanged, refused, in order of their keys; only what is taken changes the file."""
    new = judged("host", host(), OLD, TORCH14)
    same, better, worse = judged("traffic", reading("traffic"), OLD), calls(OLD, 900), read(peak=9000)
    proposal = propose(worse, same, better, new)
    rows = [(row.key, row.action, row.judged, row.unnamed) for row in proposal.rows]
    assert rows == [
        (HOST, "updated", better, False),
        (new.key, "new", new, False),
        (MEMORY, "refused", worse, True),
        (TRAFFIC, "unchanged", same, False),
    ]
    assert proposal.refused == (proposal.rows[2],)
    assert proposal.rows[2].note == "more than was accepted"
    assert (proposal.replaces, entry_of(proposal), entry_of(proposal, TRAFFIC)) == (
        OLD,
        OLD.entries[MEMORY],
        OLD.entries[TRAFFIC],
    )
    assert set(entry_of(proposal, new.key).figures) == set(entry_of(proposal, HOST).figures)


@pytest.mark.parametrize("peak", [8192, 9000])
def test_where_nothing_is_taken_there_is_no_file(peak: int) -> None:
    """All as it was, or refused."""
    assert propose(read(peak=peak)).file is None


def test_an_entry_holds_its_evidence() -> None:
    """Figures, model, loop, by whom, when and why; nothing was before it, and it is its own floor."""
    code = UserCode(module="my_models", repository="repo", commit="def", dirty=False)
    entry = entry_of(propose(read(None, user_code=code), old=None, reason=" first "))
    told = entry.provenance
    assert (entry.figures, entry.workload, entry.loop) == (memory().figures, MODEL, LOOP)
    assert (told.source, told.reason, told.date, told.commit, told.dirty) == (
        "measured",
        "first",
        "2026-11-30",
        "abc1234",
        False,
    )
    assert (told.stack, told.user_code, told.accepted) == (StoredStack.of(TORCH13), code, None)
    assert (entry.floor, entry.history) == (None, [])


@pytest.mark.parametrize("name", [HOST, "mlp/fsdp2/host", "*/host", "mlp/*"])
def test_worse_is_taken_by_name(name: str) -> None:
    """By its key, its case or a pattern; the entry says so, and is the floor from then on."""
    before = stored(HOST, floor=Floor(figures={"forward calls": 900}, date="2026-01-01"))
    entry = entry_of(propose(calls(before, 1500), old=before, accept=frozenset({name})), HOST)
    assert (entry.figures["forward calls"], entry.provenance.accepted, entry.floor) == (1500, True, None)


def test_uncommitted_code_is_refused_unless_it_is_meant() -> None:
    """No name helps; where it is meant the entry says that it was dirty, and a name counts as ever."""
    dirty = read(peak=9000, dirty=True)
    (row,) = propose(dirty, accept=frozenset({MEMORY})).rows
    said = "read from uncommitted changes: commit them and run again, or pass --allow-dirty"
    assert (row.action, row.note, row.unnamed) == ("refused", said, False)
    (unnamed,) = propose(dirty, allow_dirty=True).rows
    assert (unnamed.note, unnamed.unnamed) == ("more than was accepted", True)
    entry = entry_of(propose(dirty, accept=frozenset({MEMORY}), allow_dirty=True))
    assert entry.provenance.dirty is True


def test_uncommitted_code_of_a_user_is_named() -> None:
    """By its repository and module, where the suite's own code is committed."""
    code = UserCode(module="my_models", repository="repo", commit="def", dirty=True)
    (row,) = propose(read(peak=8000, user_code=code)).rows
    assert row.note.startswith("read from uncommitted changes of repo, where my_models lies: commit them")


def test_a_patch_is_never_stored() -> None:
    """A proposal from a patched rank is refused, whatever was named."""
    proposal = propose(read(peak=1, rank_patch="a:b"), accept=frozenset({"*"}), allow_dirty=True)
    said = "read with a patch on the ranks (a:b): this never becomes a baseline"
    assert (proposal.file, [(row.action, row.note) for row in proposal.rows]) == (None, [("refused", said)])


def test_deletions_are_listed_newest_first() -> None:
    """With day and reason; what was read of a deleted entry stores nothing, and what comes after it is still taken."""
    first = propose(calls(OLD, 900), read(peak=8000), reason=" gone ", delete=frozenset({HOST}))
    assert first.file is not None
    assert [(row.key, row.action, row.judged, row.note) for row in first.rows[1:]] == [(HOST, "deleted", None, "gone")]
    assert (first.rows[0].action, sorted(first.file.entries)) == ("updated", [MEMORY, TRAFFIC])
    second = propose(old=first.file, delete=frozenset({MEMORY, TRAFFIC})).file
    assert second is not None
    assert [(gone.case, gone.date, gone.reason) for gone in second.deleted] == [
        (MEMORY, None, "why"),
        (TRAFFIC, None, "why"),
        (HOST, "2026-11-30", "gone"),
    ]
    assert second.entries == {}


@pytest.mark.parametrize(
    ("asked", "old", "words"),
    [
        (Asked(" "), OLD, 'a budget needs a reason: pass --reason "why these figures are right".'),
        (
            Asked("x", accept=frozenset({"b/*", "a/ddp/host", MEMORY})),
            OLD,
            f"no budget is called a/ddp/host, b/*. This session read: {MEMORY}, {TRAFFIC}.",
        ),
        (
            Asked("x", delete=frozenset({"b", "a", HOST})),
            OLD,
            f"no budget is called a, b. The file has: {HOST}, {MEMORY}, {TRAFFIC}.",
        ),
        (Asked("x", delete=frozenset({"a"})), None, "no budget is called a. The file has: none."),
        (
            Asked("x" * 1001),
            OLD,
            f"{MEMORY}: can't be stored: reason: String should have at most 1000 characters. Nothing was written.",
        ),
        (
            Asked("x" * 1001, delete=frozenset({HOST, MEMORY, TRAFFIC})),
            OLD,
            f"{HOST}, {MEMORY}, {TRAFFIC}: can't be stored: reason: String should have at most 1000 characters. "
            "Nothing was written.",
        ),
    ],
)
def test_a_request_that_makes_no_sense_is_named(asked: Asked, old: BudgetFile | None, words: str) -> None:
    """No reason or one that is too long, and names that nothing has, beside those that there are."""
    with pytest.raises(UsageError) as caught:
        propose_budgets([judged("traffic", reading("traffic"), OLD), read()], PLATFORM, old, asked)
    assert str(caught.value) == words


def test_a_name_needs_something_that_was_read() -> None:
    """A session without readings has none to accept."""
    with pytest.raises(UsageError, match=r"no budget is called mlp/fsdp2/memory\. This session read: none\."):
        propose(accept=frozenset({MEMORY}))


def test_the_history_is_bounded_and_keeps_the_first() -> None:
    """One more than it holds: the newest come in, the very first stays."""
    told = OLD.entries[MEMORY].provenance
    past = [PastBudget(figures={"resident bytes": i + 1}, provenance=told) for i in range(MAX_HISTORY)]
    for kept in (MAX_HISTORY, MAX_HISTORY - 1, 1, 0):
        file = stored(MEMORY, history=past[:kept])
        entry = entry_of(propose(read(file, peak=8000), old=file))
        figures = [each.figures.get("resident bytes") for each in entry.history]
        numbers = [*range(1, kept + 1)] if kept < MAX_HISTORY else [*range(1, MAX_HISTORY - 1), MAX_HISTORY]
        assert figures == [4096, *numbers]
        assert entry.history[0] == PastBudget(figures=memory().figures, provenance=told)


def test_a_floor_is_the_least_of_each_figure() -> None:
    """Since the day that it was set; none is needed where all is at its least; of a figure that is new it is that."""
    file = propose(calls(OLD, 1010, backward=1990)).file
    assert file is not None
    least = {"forward calls": 1000, "backward calls": 1990, "forward operators": 15}
    assert file.entries[HOST].floor == Floor(figures=least, date="2026-11-30")
    assert entry_of(propose(calls(file, 999, backward=1980), old=file), HOST).floor is None
    unknown = stored(HOST, floor=Floor(figures={"forward calls": 999}))
    floor = entry_of(propose(calls(unknown, 1001), old=unknown), HOST).floor
    assert floor == Floor(figures={"forward calls": 999, "backward calls": 2000, "forward operators": 15})


@pytest.mark.parametrize(
    ("floor", "words"),
    [
        (Floor(figures={"forward calls": 970, "backward calls": 1950}, date="2026-01-01"), "since 2026-01-01"),
        (Floor(figures={"forward calls": 970, "backward calls": 1950}), "since the first figure"),
    ],
)
def test_calls_that_creep_are_stopped(floor: Floor, words: str) -> None:
    """1.5% passes and is refused: the floor lies 4.6% below. Of two slips the larger by fraction is named."""
    file = stored(HOST, floor=floor)
    one = calls(file, 1015, backward=2035)
    (row,) = propose(one, old=file).rows
    assert (one.verdict, row.action, row.unnamed) == ("PASS", "refused", True)
    assert row.note == f"small slips add up: forward calls 970 -> 1,015 {words}"


@pytest.mark.parametrize(
    "floor",
    [{"forward calls": 1000}, {"backward calls": 2000}, {"forward calls": 996, "backward calls": 1996}],
)
def test_calls_that_stay_near_their_floor_go_on(floor: dict[str, int]) -> None:
    """2% above it in all, also beside a figure that the floor does not know, and below it as far as they like."""
    file = stored(HOST, floor=Floor(figures=floor))
    actions = [propose(calls(file, forward), old=file).rows[0].action for forward in (1015, 500)]
    assert actions == ["updated", "updated"]


def test_a_saving_does_not_hide_calls_that_creep() -> None:
    """IMPROVED for its operators, refused for its calls."""
    file = stored(HOST, floor=Floor(figures={"forward calls": 980}))
    one = judged("host", host(forward=1015, adds=9), file)
    (row,) = propose(one, old=file).rows
    assert (one.verdict, row.action) == ("IMPROVED", "refused")


CASES = [case("memory"), case("host"), case("traffic")]


@pytest.mark.parametrize(
    ("cases", "complete", "stale"),
    [
        (CASES, {"memory", "host", "traffic"}, []),
        (CASES[1:], {"memory", "host", "traffic"}, [MEMORY]),
        (CASES[:1], {"memory", "host", "traffic"}, [HOST, TRAFFIC]),
        (CASES[1:], {"host", "traffic"}, []),
        ([], {"memory", "host", "traffic"}, []),
    ],
)
def test_an_entry_without_a_test_is_stale(cases: list[Any], complete: set[str], stale: list[str]) -> None:
    """Of budgets whose tests were all selected; entries of a workload without any test are another session's."""
    assert stale_keys(OLD, cases, frozenset(complete)) == stale
    assert stale_keys(None, cases, frozenset(complete)) == []
