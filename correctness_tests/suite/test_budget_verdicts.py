"""Property: one function decides about a budget, two-sided, exact but for calls, by the nearest stack of one Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.synthetic_budgets import (
    BUDGETS,
    MESSAGES,
    MODEL,
    TORCH9,
    TORCH13,
    TORCH14,
    accepted,
    case,
    host,
    judged,
    memory,
    provenance,
    reading,
    traffic,
)
from fixtures.gate.budget_proposals import propose_budgets
from fixtures.gate.budget_verdicts import judge_budget, moved, total_calls
from fixtures.gate.budgets import Reading, StackLabel, nearest
from fixtures.gate.proposals import Asked
from fixtures.gate.verdicts import Verdict
from fixtures.measurements import Stack
from fixtures.session.budgets import PLATFORM

pytestmark = pytest.mark.cpu

FIRST, SECOND, THIRD = MESSAGES


@pytest.mark.parametrize("budget", BUDGETS)
def test_what_was_accepted_passes(budget: str) -> None:
    """The same reading again: PASS, and nothing moved."""
    found = judged(budget, reading(budget), accepted())
    assert (found.verdict, found.moves, found.events) == (Verdict.PASS, (), ())


@pytest.mark.parametrize(
    ("budget", "read", "verdict"),
    [
        ("memory", memory(resident=4097), Verdict.REGRESSED),
        ("memory", memory(peak=8191), Verdict.IMPROVED),
        ("memory", memory(resident=4095, peak=8193), Verdict.REGRESSED),
        ("traffic", traffic(*MESSAGES, "optimizer broadcast uint8 4"), Verdict.REGRESSED),
        ("traffic", traffic(FIRST, THIRD), Verdict.IMPROVED),
        ("traffic", traffic(FIRST, SECOND, THIRD.replace("float32 2048", "bfloat16 1024")), Verdict.REGRESSED),
        ("traffic", traffic(FIRST, THIRD, SECOND), Verdict.REGRESSED),
        ("traffic", traffic(FIRST, SECOND.replace("backward", "forward"), THIRD), Verdict.REGRESSED),
        ("traffic", traffic(*(text.replace("blocks.0", "layers.0") for text in MESSAGES)), Verdict.PASS),
        ("host", host(forward=1020), Verdict.PASS),
        ("host", host(forward=1021), Verdict.REGRESSED),
        ("host", host(forward=980, backward=1960), Verdict.PASS),
        ("host", host(forward=979), Verdict.IMPROVED),
        ("host", host(adds=11), Verdict.REGRESSED),
        ("host", host(adds=9), Verdict.IMPROVED),
    ],
)
def test_every_move_has_its_verdict(budget: str, read: Reading, verdict: Verdict) -> None:
    """Bytes, counts, operators and order are exact, calls within 2%; the name of a unit is for the reader."""
    assert judged(budget, read, accepted()).verdict is verdict


@given(forward=st.integers(200, 3000), adds=st.integers(0, 20), backward=st.integers(1, 4000))
def test_passing_means_within_the_bounds(forward: int, adds: int, backward: int) -> None:
    """PASS exactly where operators are equal and all calls are within 2%; worse exactly where one is above."""
    found = judged("host", host(forward, backward, adds), accepted())
    inside = adds == 10 and abs(forward - 1000) <= 20 and abs(backward - 2000) <= 40
    above = adds > 10 or forward > 1020 or backward > 2040
    expected = Verdict.PASS if inside else Verdict.REGRESSED if above else Verdict.IMPROVED
    assert found.verdict is expected


def test_a_change_names_what_moved() -> None:
    """Figures with old and new, the file whose calls grew, and the message that is new with its place."""
    more = host(backward=2100)
    found = judged("host", more, accepted())
    assert [(m.name, m.old, m.new) for m in found.moves] == [("backward calls", 2000, 2100)]
    assert [m.name for m in found.parts["backward calls"]] == ["torch/a.py"]
    sent = judged("traffic", traffic(FIRST, SECOND, SECOND, THIRD), accepted())
    assert sent.events == (f"+   3 {SECOND}",)


def test_names_that_come_and_go_moved_from_and_to_nothing() -> None:
    """Every name that moved, the largest difference first, whatever its size; what is the same is left out."""
    old, new = {"same": 7, "large": 1000, "small": 1, "gone": 3}, {"same": 7, "large": 1001, "small": 9, "new": 5}
    assert [(m.name, m.old, m.new) for m in moved(old, new)] == [
        ("small", 1, 9),
        ("new", 0, 5),
        ("gone", 3, 0),
        ("large", 1000, 1001),
    ]


def test_a_phase_that_is_new_brings_its_files() -> None:
    """Calls of a phase that the entry does not know are shown file by file, each from 0."""
    parts = {**host().parts, "input calls": {"torch/c.py": 50}}
    read = Reading(figures={**host().figures, "input calls": 50}, parts=parts)
    found = judged("host", read, accepted())
    assert [(m.name, m.old, m.new) for m in found.parts["input calls"]] == [("torch/c.py", 0, 50)]


def test_calls_of_other_files_for_the_same_count_pass() -> None:
    """Only operators are exact by name: of calls the top files are kept, which may change places."""
    parts = {**host().parts, "forward calls": {"torch/a.py": 800, "torch/b.py": 200}}
    assert judged("host", Reading(figures=host().figures, parts=parts), accepted()).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (host(), "as accepted"),
        (host(forward=1020), "calls moved, by no more than 2%"),
        (host(adds=11), "more than was accepted"),
        (host(adds=9), "less than was accepted"),
    ],
)
def test_the_reason_is_the_row_that_decided(read: Reading, reason: str) -> None:
    """One sentence a row of the table."""
    assert judged("host", read, accepted()).reason == reason


def test_messages_are_named_with_their_places() -> None:
    """What went by its place in the accepted step, what came by its place in this one, all of them in order."""
    found = judged("traffic", traffic(SECOND, THIRD, "optimizer broadcast uint8 4"), accepted())
    assert found.events == (f"-   1 {FIRST}", "+   3 optimizer broadcast uint8 4")
    assert judged("traffic", traffic(FIRST), accepted()).events == (f"-   2 {SECOND}", f"-   3 {THIRD}")


@pytest.mark.parametrize(("more", "last"), [(12, f"+  15 {FIRST}"), (13, "  and 1 more"), (20, "  and 8 more")])
def test_many_messages_are_cut(more: int, last: str) -> None:
    """Twelve are shown, and how many more there are."""
    events = judged("traffic", traffic(*MESSAGES, *[FIRST] * more), accepted()).events
    assert (len(events), events[-1]) == (min(more, 13), last)


def test_one_message_among_hundreds_is_the_only_one_named() -> None:
    """Messages that repeat hundreds of times are compared like any other."""
    many = [SECOND] * 150 + [THIRD] * 150
    one = judged("traffic", traffic(*many), None)
    file = propose_budgets([one], PLATFORM, None, Asked("the first")).file
    found = judged("traffic", traffic(*many[:150], FIRST, *many[150:]), file)
    assert found.events == (f"+ 151 {FIRST}",)


def test_calls_of_a_step_leave_out_what_more_blocks_cost() -> None:
    """All phases of the step itself; figures that begin with a number are about a larger model."""
    assert total_calls({"forward calls": 3, "backward calls": 4, "2 more blocks: calls": 50, "adds operators": 9}) == 7
    assert judged("host", host(), None).calls_move is None


@pytest.mark.parametrize("budget", ["traffic", "memory"])
def test_messages_and_bytes_are_one_for_all_stacks(budget: str) -> None:
    """Another torch under another Python is judged by the same entry."""
    found = judged(budget, reading(budget), accepted(), TORCH9)
    assert (found.verdict, found.borrowed) == (Verdict.PASS, False)


def test_an_upgrade_is_judged_by_the_stack_before() -> None:
    """Calls +5% on a torch without an entry: REGRESSED against the nearest of the same Python, which is named."""
    found = judged("host", host(forward=1050, backward=2100), accepted(), TORCH14)
    assert (found.verdict, found.borrowed) == (Verdict.REGRESSED, True)
    assert str(found.entry_stack) == "torch 2.13, Python 3.11"
    assert found.calls_move == pytest.approx(0.05)


def test_an_entry_of_its_own_judges_and_the_other_is_shown() -> None:
    """With its own entry a stack passes by it; what another stack accepted is kept beside it."""
    found = judged("host", host(), accepted(TORCH13, TORCH14), TORCH14)
    assert (found.verdict, found.borrowed) == (Verdict.PASS, False)
    assert found.others == {"torch 2.13, Python 3.11": 3000}


def test_other_stacks_are_shown_in_order() -> None:
    """By version and not by letter: 2.9 comes before 2.13."""
    older = Stack(torch="2.9.1", python="3.11.7")
    found = judged("host", host(), accepted(TORCH13, older, TORCH14), TORCH14)
    assert list(found.others) == ["torch 2.9, Python 3.11", "torch 2.13, Python 3.11"]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [("traffic", "nothing is accepted for it"), ("host", "nothing is accepted for it under Python 3.11")],
)
def test_nothing_accepted_names_the_python_where_it_matters(budget: str, reason: str) -> None:
    """Messages and bytes are one for all stacks; calls are a Python's."""
    assert judged(budget, reading(budget), None).reason == reason


def test_another_python_has_no_baseline() -> None:
    """Calls of another Python can't be compared: NO_BASELINE, naming what is there."""
    found = judged("host", host(), accepted(), TORCH9)
    assert found.verdict is Verdict.NO_BASELINE
    assert "under Python 3.13: accepted are torch 2.13, Python 3.11" in found.reason


def test_nothing_accepted_is_no_baseline() -> None:
    """Without a file, or with one of another model, nothing is judged, and the message says why."""
    assert judged("traffic", reading("traffic"), None).verdict is Verdict.NO_BASELINE
    other = MODEL.model_copy(update={"num_params": 999})
    found = judge_budget(case("traffic"), reading("traffic"), other, provenance(), accepted())
    assert (found.verdict, found.reason) == (
        Verdict.NO_BASELINE,
        "the entry speaks of another model: num_params 1000, now 999",
    )


@pytest.mark.parametrize(
    ("torch", "expected"),
    [((2, 14), (2, 13)), ((2, 13), (2, 13)), ((2, 12), (2, 11)), ((2, 9), (2, 11)), ((3, 0), (2, 13))],
)
def test_nearest_is_the_newest_older_one(torch: tuple[int, int], expected: tuple[int, int]) -> None:
    """Of the same Python the newest torch that is no newer, else the oldest of all."""
    stacks = [StackLabel((2, 11), (3, 11)), StackLabel((2, 13), (3, 11)), StackLabel((2, 14), (3, 13))]
    found = nearest(stacks, StackLabel(torch, (3, 11)))
    assert found is not None
    assert found.torch == expected


@pytest.mark.parametrize("version", ["2.13.0+cpu", "2.13.1", "2.13.0a0+gitabc"])
def test_a_label_is_major_and_minor(version: str) -> None:
    """Builds and patch releases share an entry."""
    assert str(StackLabel.of(Stack(torch=version, python="3.11.7"))) == "torch 2.13, Python 3.11"
