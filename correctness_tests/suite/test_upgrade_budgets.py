"""What an upgrade did to the budgets reads worst first, in 80 columns, and ends in what it means and what to run."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic_budgets import (
    MESSAGES,
    TORCH9,
    TORCH13,
    TORCH14,
    host,
    judged,
    memory,
    reading,
    traffic,
)
from fixtures.errors import UsageError
from fixtures.gate.budget_verdicts import JudgedBudget
from fixtures.gate.entries import StoredStack
from fixtures.gate.upgrade import budget_moves
from fixtures.report.upgrade_budgets import Stacks, conclusion, upgrade_budget_text

pytestmark = pytest.mark.cpu

COMMAND = ("python perf_tests/upgrade.py", "--old old/python", "--new new/python", "--budgets-only")
KEPT = Stacks(True, True, "results/up/budgets-new.log", "new/python", ["--workload", "my_models:factory"], COMMAND)
BROKEN = KEPT._replace(new_kept=False)


def sides(*new: JudgedBudget) -> list[JudgedBudget]:
    """The new stack's readings beside the old one's, of torch 2.13."""
    return budget_moves([judged(b, reading(b), None) for b in ("traffic", "memory", "host")], list(new))


def same(*budgets: str) -> list[JudgedBudget]:
    """Readings under torch 2.14 of budgets that did not move."""
    return [judged(budget, reading(budget), None, TORCH14) for budget in budgets]


CALLS = sides(*same("traffic", "memory"), judged("host", host(forward=1050, backward=2030), None, TORCH14))
BYTES = sides(*same("traffic"), judged("memory", memory(peak=8200), None, TORCH14), CALLS[2])


def said(found: list[JudgedBudget], stacks: Stacks) -> str:
    """The conclusion on one line."""
    return " ".join(" ".join(conclusion(found, stacks)).split())


def test_what_moved_is_a_table() -> None:
    """A row a figure beyond its tolerance, where it is made, then in how many cases each budget is the same."""
    assert upgrade_budget_text(CALLS, "torch 2.13", "torch 2.14").splitlines() == [
        "budgets: torch 2.13 -> torch 2.14; calls may move by 2%, all else by nothing",
        "",
        "moved too far, worst first",
        "arm    figure         workload    old    new   move",
        "-" * 52,
        "fsdp2  forward calls  mlp       1,000  1,050  +5.0%",
        "",
        "fsdp2, forward calls of mlp: torch/a.py 900 -> 950",
        "",
        "traffic: the same in 1 of 1 cases",
        "memory: the same in 1 of 1 cases",
        "host: the same in 0 of 1 cases",
        "1 figure of calls moved by no more than they may, at most 1.5% (mlp/fsdp2/host)",
    ]


def test_what_is_exact_comes_first() -> None:
    """8 bytes more are worse than 5% more calls; what got less comes last."""
    fewer = judged("host", host(forward=1050, backward=1500), None, TORCH14)
    rows = upgrade_budget_text(sides(BYTES[1], fewer), "a", "b").splitlines()[5:8]
    assert [row.split()[1:3] for row in rows] == [["peak", "backward"], ["forward", "calls"], ["backward", "calls"]]


def test_the_conclusion_names_arm_phase_and_size() -> None:
    """In one sentence; accepted already, so there is nothing to accept, and the full command is the next step."""
    assert said(CALLS, KEPT) == (
        "In short: every arm sends and holds what it did; fsdp2 moved most, forward calls +5.0% (mlp: 1,000 -> 1,050). "
        "More than before in fsdp2. The new stack keeps what is accepted for it (the host's calls have an entry a "
        "stack): nothing to accept. To see, on GPUs, whether a step takes longer for it: "
        "python perf_tests/upgrade.py --old old/python --new new/python"
    )


def test_calls_that_are_not_accepted_have_their_command() -> None:
    """The log of the messages, and the option that gives the new stack its own entries."""
    text = said(CALLS, BROKEN)
    assert "The new stack breaks what is accepted: results/up/budgets-new.log has each message." in text
    assert text.replace(" \\", "").endswith('--new new/python --budgets-only --accept-host "..."')


def test_bytes_are_accepted_under_the_new_stack() -> None:
    """Bytes are one for all stacks: named first, and accepted by name with the new interpreter."""
    text = said(BYTES, BROKEN)
    assert "messages or bytes moved in fsdp2; fsdp2 moved most, peak backward bytes +0.1% (mlp: 8,192 -> 8,200)" in text
    command = "new/python -m pytest perf_tests -m cpu -k accepted --workload my_models:factory --update-baselines"
    assert f'{command} --reason "..." --accept mlp/fsdp2/memory' in text.replace(" \\", "")


def test_other_messages_of_the_same_bytes_are_said() -> None:
    """No figure moved, the order of messages did: which arm, and the messages themselves."""
    found = sides(judged("traffic", traffic(*MESSAGES[::-1]), None, TORCH14))
    assert "In short: messages or bytes moved in fsdp2; other messages or operators in fsdp2." in said(found, KEPT)
    assert "mlp/fsdp2/traffic: - " in upgrade_budget_text(found, "a", "b")


def test_nothing_moved() -> None:
    """An upgrade that moves nothing says so in two lines."""
    assert said(sides(*same("traffic", "memory")), KEPT) == (
        "In short: every arm sends and holds what it did; no figure moved. "
        "The new stack keeps what is accepted for it: nothing to accept."
    )


def test_a_broken_old_stack_is_said() -> None:
    """What the old stack broke already is not put down to the upgrade."""
    assert "The old stack breaks it too" in said(CALLS, BROKEN._replace(old_kept=False))


@pytest.mark.parametrize("stacks", [KEPT, BROKEN], ids=["kept", "broken"])
@pytest.mark.parametrize("found", [CALLS, BYTES], ids=["calls", "bytes"])
def test_it_fits_in_80_columns(found: list[JudgedBudget], stacks: Stacks) -> None:
    """Table, remarks and conclusion; a command's word is never broken."""
    text = upgrade_budget_text(found, str(TORCH13), str(TORCH14)).splitlines() + conclusion(found, stacks)
    assert [line for line in text if not line.isascii() or (len(line) > 80 and " -m pytest " not in line)] == []


def test_another_python_is_not_compared() -> None:
    """Bytes are compared with any stack, calls of another Python are not: counted, with the reason."""
    found = sides(judged("host", host(), None, TORCH9), judged("memory", memory(), None, TORCH9))
    assert [str(j.verdict) for j in found] == ["NO_BASELINE", "PASS"]
    assert "not compared, in 1 cases: nothing is accepted for it under Python 3.13" in upgrade_budget_text(
        found, "a", "b"
    )
    assert "1 cases could not be compared" in said(found, KEPT)


def test_what_judges_is_the_old_stack() -> None:
    """The entry is the old stack's reading, and says so; other entries of the new stack are none of its."""
    (found,) = sides(*same("memory"))
    assert found.entry is not None
    assert (found.entry.figures, found.entry.provenance.stack) == (memory().figures, StoredStack.of(TORCH13))


def test_stacks_without_a_common_case_are_refused() -> None:
    """Nothing to compare: named."""
    with pytest.raises(UsageError, match="no budget in common"):
        budget_moves([judged("host", host(), None)], [judged("memory", memory(), None, TORCH14)])
