"""A budget that is not kept says what moved, from what to what, where, by which stacks, and what to run next."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic_budgets import (
    MESSAGES,
    TORCH9,
    TORCH13,
    TORCH14,
    accepted,
    host,
    judged,
    memory,
    reading,
    traffic,
)
from fixtures.gate.budget_proposals import propose_budgets
from fixtures.gate.proposals import Asked
from fixtures.measurements import Stack
from fixtures.report.budgets import budget_lines, budget_message, proposal_lines
from fixtures.session.budgets import PLATFORM

pytestmark = pytest.mark.cpu


def test_more_bytes_are_named() -> None:
    """Old, new, difference, what was allowed, who accepted it and when, and the name that accepts it."""
    text = budget_message(judged("memory", memory(peak=8200), accepted()), select="[mlp-fsdp2-memory]")
    assert text.splitlines() == [
        "REGRESSED mlp/fsdp2/memory on cpu-solo-8",
        "  moved       peak backward bytes 8,192 -> 8,200, +8 (+0.1%); allowed: nothing",
        '  accepted    2026-11-30, commit abc1234: "the first"',
        "              with torch 2.13.0+cpu, Python 3.11.7",
        "  running     torch 2.13.0+cpu, Python 3.11.7",
        "  verdict     REGRESSED: more than was accepted",
        "  meaning     Another buffer is alive in that phase, or one is gone: unsharded",
        "              parameters, gradients, a bucket.",
        "  run this check alone:",
        "    pytest perf_tests -m cpu -k '[mlp-fsdp2-memory]'",
        "  accept      --accept mlp/fsdp2/memory, when it is meant; the command is at the",
        "              end of this session's output",
    ]


def test_an_upgrade_names_both_stacks_and_the_file() -> None:
    """Calls of each phase, the file that is called more often, the move of all calls between two stacks."""
    text = budget_message(judged("host", host(forward=1050, backward=2100), accepted(), TORCH14))
    for line in (
        "  moved       backward calls 2,000 -> 2,100, +100 (+5.0%); allowed: +/-2%",
        "  where       forward calls: torch/a.py 900 -> 950",
        "  in all      calls +5.0%: torch 2.13, Python 3.11 (accepted) -> torch 2.14,",
    ):
        assert line in text.splitlines()


def test_a_message_that_is_new_has_its_place() -> None:
    """Which message of the step, by its unit."""
    text = budget_message(judged("traffic", traffic(*MESSAGES, "optimizer broadcast uint8 4"), accepted()))
    assert "  messages    +   4 optimizer broadcast uint8 4" in text.splitlines()


@pytest.mark.parametrize("stack", [TORCH13, TORCH14, TORCH9], ids=str)
def test_lines_fit_a_log(stack: Stack) -> None:
    """At most 80 columns, ASCII, whatever the verdict."""
    found = [judged(b, reading(b), accepted(), stack) for b in ("traffic", "host")]
    found.append(judged("host", host(forward=2000), accepted(), stack))
    lines = [line for one in found for line in budget_message(one).splitlines()] + budget_lines(found)
    assert [line for line in lines if len(line) > 80 or not line.isascii()] == []


def test_a_pass_that_moved_is_not_silent() -> None:
    """1% more calls pass, and the end of the session says so."""
    lines = budget_lines([judged("host", host(forward=1010), accepted())])
    assert lines[-1] == "* mlp/fsdp2/host: forward calls 1,000 -> 1,010, +10 (+1.0%)"


def test_an_update_lists_what_it_does() -> None:
    """Refused first, with the reason; then what is new; then how many."""
    readings = [judged("memory", memory(peak=9000), accepted()), judged("host", host(), accepted(), TORCH14)]
    proposal = propose_budgets(readings, PLATFORM, accepted(), Asked("x"))
    lines = proposal_lines(proposal)
    assert lines[0].startswith("refused mlp/fsdp2/memory: more than was accepted: peak backward bytes 8,192")
    assert lines[-2:] == ["new mlp/fsdp2/host/torch-2.14-python-3.11", "update of the budgets: 1 new, 1 refused"]
