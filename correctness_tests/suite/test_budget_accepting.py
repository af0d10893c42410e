"""Ten budgets that fail, or that an update refuses, are accepted by one command: it ends the session."""

from __future__ import annotations

import shlex
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.synthetic_budgets import MODEL, accepted, judged, memory, provenance
from fixtures.gate.budget_proposals import propose_budgets
from fixtures.gate.budget_verdicts import JudgedBudget, judge_budget
from fixtures.gate.budgets import BudgetCase, BudgetFile, Reading
from fixtures.gate.patterns import fewest_names
from fixtures.gate.proposals import Asked
from fixtures.report.budgets import accept_lines, budget_message, refused_lines
from fixtures.session.budgets import PLATFORM

pytestmark = pytest.mark.cpu

ARMS = ("ddp", "fsdp1", "fsdp2", "fsdp2-noreshard")
CASES = ["/".join(parts) for parts in product(("mlp", "gpt2-rehearsal"), ARMS, ("traffic", "memory", "host"))]
HOST = [case for case in CASES if case.endswith("/host")]


@pytest.mark.parametrize(
    ("meant", "names"),
    [
        (HOST, ["*/host"]),
        (["mlp/ddp/host"], ["mlp/ddp/host"]),
        ([case for case in HOST if "/ddp/" not in case], ["*/fsdp1/host", "*/fsdp2-noreshard/host", "*/fsdp2/host"]),
        ([case for case in CASES if case.startswith("mlp/")], ["mlp/*"]),
        ([case for case in CASES if "/fsdp2/" in case], ["*/fsdp2/*"]),
        (CASES, ["gpt2-rehearsal/*", "mlp/*"]),
        ([], []),
    ],
)
def test_a_pattern_stands_for_many(meant: list[str], names: list[str]) -> None:
    """All of one budget, workload or arm is one pattern; one case is its name; no pattern means all there is."""
    assert fewest_names(meant, set(CASES) - set(meant)) == names


def read(case: str, file: BudgetFile | None, worse: bool = False) -> JudgedBudget:
    """The case as it is accepted in ``FILE``, or with one of a figure more."""
    fields = dict(zip(("workload", "arm", "budget"), case.split("/"), strict=True))
    reading = Reading(figures={"forward operators": 11 if worse else 10})
    return judge_budget(BudgetCase.model_validate(fields), reading, MODEL, provenance(), file)


FILE = propose_budgets([read(case, None) for case in CASES], PLATFORM, None, Asked("the first")).file


@given(st.sets(st.sampled_from(CASES), min_size=1), st.sets(st.sampled_from(CASES)))
def test_the_names_mean_what_was_meant(worse: set[str], others: set[str]) -> None:
    """Whatever failed: an update that is given the names accepts that, refuses nothing and touches nothing else."""
    found = [read(case, FILE, case in worse) for case in sorted(worse | others)]
    names = frozenset(fewest_names(worse, others - worse))
    rows = propose_budgets(found, PLATFORM, FILE, Asked("x", accept=names)).rows
    assert {row.judged.case.id: row.action for row in rows if row.judged} == {
        j.case.id: "updated" if j.case.id in worse else "unchanged" for j in found
    }


@pytest.mark.parametrize(("name", "pattern"), [("a[1]/ddp/host", "a[[]1]/ddp/host"), ("a*/ddp/host", "a[*]/ddp/host")])
def test_a_name_of_signs_is_only_itself(name: str, pattern: str) -> None:
    """A workload whose name holds a pattern's signs is named by it, and nobody else is."""
    assert fewest_names([name], ["a1/ddp/host"]) == fewest_names([name]) == [pattern]


def test_no_star_is_wasted() -> None:
    """Of patterns that cover as many, the one that leaves less open."""
    assert fewest_names(["mlp/fsdp2/host", "gpt2-rehearsal/fsdp2/host"]) == ["*/fsdp2/host"]


def test_a_workload_of_several_words_is_one_part() -> None:
    """Only arm and budget follow the workload: a name with slashes is left open as a whole or not at all."""
    assert fewest_names(["zoo/cat/ddp/host", "zoo/cat/ddp/memory"]) == ["zoo/cat/*"]
    both = ["zoo/cat/ddp/host", "zoo/dog/ddp/host"]
    assert fewest_names(both, ["mlp/ddp/host"]) == both


def test_ten_failures_end_in_one_command() -> None:
    """Every host's budget fails: each message has its case's name and points down, and one command names them all."""
    found = [read(case, FILE, case in HOST) for case in CASES]
    messages = {j.case.id: " ".join(budget_message(j).split()) for j in found if j.verdict.fails}
    assert sorted(messages) == sorted(HOST)
    where = "the command is at the end of this session's output"
    assert all(text.endswith(f"accept --accept {case}, when it is meant; {where}") for case, text in messages.items())
    assert accept_lines(found, None) == [
        "to accept all 8, when it is meant:",
        '  pytest perf_tests -m cpu -k accepted --update-baselines --reason "..." \\',
        "    --accept '*/host'",
    ]


def test_what_an_update_refused_is_named_once() -> None:
    """An update that was not given the names: a line a reason, and the command that gives them."""
    found = [read(case, FILE, case in HOST) for case in CASES]
    proposal = propose_budgets(found, PLATFORM, FILE, Asked("x"))
    assert refused_lines(proposal.refused) == ["not updated: 8 budgets: more than was accepted"]
    assert accept_lines(found, proposal)[-1] == "    --accept '*/host'"
    granted = propose_budgets(found, PLATFORM, FILE, Asked("x", accept=frozenset(["*/host"])))
    assert accept_lines(found, granted) == []


def test_no_name_helps_uncommitted_code() -> None:
    """What is refused for another reason than its name is not offered: the reason says what to do."""
    (dirty,) = [judged("memory", memory(peak=9000), accepted(), dirty=True)]
    proposal = propose_budgets([dirty], PLATFORM, accepted(), Asked("x"))
    assert accept_lines([dirty], proposal) == []
    assert "commit them and run again" in refused_lines(proposal.refused)[0]


def test_first_figures_are_recorded_without_names() -> None:
    """Where nothing was accepted yet the command records, and names nothing."""
    lines = accept_lines([read(case, None) for case in CASES[:3]], None)
    assert lines[0] == "to record all 3, when it is meant:"
    assert "--accept" not in shlex.split(" ".join(lines[1:]).replace("\\", ""))


def test_a_patched_rank_is_not_accepted() -> None:
    """Figures of a planted fault have no command."""
    one = judged("memory", memory(peak=9000), accepted())
    patched = one.model_copy(update={"provenance": one.provenance.model_copy(update={"rank_patch": "faults.x:apply"})})
    assert accept_lines([patched], None) == []
