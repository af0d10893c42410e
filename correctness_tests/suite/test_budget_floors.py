"""Property: slips of calls that pass one by one do not add up: not after a saving, nor over stacks, nor models."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic_budgets import MODEL, TORCH13, accepted, case, host, judged, provenance
from fixtures.gate.budget_proposals import propose_budgets
from fixtures.gate.budget_verdicts import judge_budget
from fixtures.gate.budgets import BudgetFile, Reading
from fixtures.gate.entries import StoredWorkload
from fixtures.gate.proposals import Asked
from fixtures.measurements import Stack
from fixtures.session.budgets import PLATFORM

pytestmark = pytest.mark.cpu

SMALLER = StoredWorkload(num_params=700, tokens_per_batch=16, shape_hash="def")


def update(
    file: BudgetFile, read: Reading, *, stack: Stack = TORCH13, model: StoredWorkload = MODEL, accept: str = ""
) -> tuple[str, BudgetFile]:
    """What becomes of a reading, and the file after it."""
    one = judge_budget(case("host"), read, model, provenance(stack), file)
    asked = Asked("why not", accept=frozenset({accept} if accept else ()))
    proposal = propose_budgets([one], PLATFORM, file, asked)
    return proposal.rows[0].action, proposal.file or file


def creep(file: BudgetFile, start: int, model: StoredWorkload = MODEL) -> int:
    """Update by 1.9% more calls at a time until it is refused; the last calls that were accepted."""
    calls = start
    for _ in range(20):
        action, file = update(file, host(forward=int(calls * 1.019)), model=model)
        if action == "refused":
            return calls
        calls = int(calls * 1.019)
    return calls


def test_a_saving_is_the_new_floor() -> None:
    """1,000 -> 700 is accepted; back up by 1.9% at a time is refused at 2% over 700."""
    action, file = update(accepted(), host(forward=700))
    assert action == "updated"
    assert creep(file, 700) <= 714


def test_each_figure_has_its_own_floor() -> None:
    """An operator less each time does not hide calls that creep."""
    file = accepted()
    actions = []
    for adds, forward in ((9, 1015), (8, 1030)):
        action, file = update(file, host(forward=forward, adds=adds))
        actions.append(action)
    assert actions == ["updated", "refused"]


@pytest.mark.parametrize("before", [2000, 1000])
def test_another_model_begins_anew(before: int) -> None:
    """After a change of the model its first figures are the floor, whether the one before did more or less."""
    _, file = update(accepted(), host(forward=before), accept="mlp/fsdp2/host")
    action, file = update(file, host(forward=1500), model=SMALLER)
    assert action == "updated"
    assert update(file, host(forward=1500), model=SMALLER)[0] == "unchanged"
    assert creep(file, 1500, SMALLER) <= 1530


def test_a_new_stack_takes_over_the_floor() -> None:
    """1.9% with each version of torch, judged by the one before: refused at 2% over the first."""
    file, calls, actions = accepted(), 1000, []
    for minor in (14, 15, 16):
        calls = int(calls * 1.019)
        action, file = update(file, host(forward=calls), stack=Stack(torch=f"2.{minor}.0", python="3.11.7"))
        actions.append(action)
    assert actions == ["new", "refused", "refused"]


def test_a_name_moves_the_floor() -> None:
    """Accepted by name, the figure is the floor itself."""
    action, file = update(accepted(), host(forward=1100), accept="mlp/fsdp2/host")
    assert (action, file.entries[judged("host", host(), file).key].floor) == ("updated", None)
    assert creep(file, 1100) == 1120
