"""Budgets that nobody read: readings, entries and files whose verdict can be known beforehand."""

from __future__ import annotations

from fixtures.gate.budget_proposals import propose_budgets
from fixtures.gate.budget_verdicts import JudgedBudget, judge_budget
from fixtures.gate.budgets import BudgetCase, BudgetFile, Reading, figures_of
from fixtures.gate.entries import StoredWorkload
from fixtures.gate.proposals import Asked
from fixtures.measurements import Provenance, Stack
from fixtures.session.budgets import PLATFORM

TORCH13 = Stack(torch="2.13.0+cpu", python="3.11.7")
TORCH14 = Stack(torch="2.14.1", python="3.11.7")
TORCH9 = Stack(torch="2.9.1", python="3.13.0")
MODEL = StoredWorkload(num_params=1000, tokens_per_batch=16, shape_hash="abc")
MESSAGES = (
    "forward all-gather bfloat16 1024 blocks.0",
    "backward all-gather bfloat16 1024 blocks.0",
    "backward reduce-scatter float32 2048 blocks.0",
)
BUDGETS = ("traffic", "memory", "host")


def case(budget: str, arm: str = "fsdp2") -> BudgetCase:
    """A case of the workload ``mlp``."""
    return BudgetCase.model_validate({"workload": "mlp", "arm": arm, "budget": budget})


def traffic(*messages: str) -> Reading:
    """A step that sends these."""
    return Reading(figures=figures_of(list(messages)), events=list(messages))


def memory(resident: int = 4096, peak: int = 8192) -> Reading:
    """A step that holds these bytes."""
    return Reading(figures={"resident bytes": resident, "peak backward bytes": peak})


def host(forward: int = 1000, backward: int = 2000, adds: int = 10) -> Reading:
    """A step of these calls, all in two files, and operators."""
    parts = {
        "forward calls": {"torch/a.py": forward - 100, "torch/b.py": 100},
        "backward calls": {"torch/a.py": backward},
        "forward operators": {"aten.add.Tensor": adds, "aten.mm.default": 5},
    }
    return Reading(figures={name: sum(part.values()) for name, part in parts.items()}, parts=parts)


def reading(budget: str) -> Reading:
    """What is accepted in ``accepted``."""
    return {"traffic": traffic(*MESSAGES), "memory": memory(), "host": host()}[budget]


def provenance(stack: Stack = TORCH13, *, dirty: bool = False, patch: str | None = None) -> Provenance:
    """Of a reading of committed code."""
    return Provenance(stack=stack, date="2026-11-30", commit="abc1234", dirty=dirty, rank_patch=patch)


def judged(
    budget: str, read: Reading, file: BudgetFile | None, stack: Stack = TORCH13, *, dirty: bool = False
) -> JudgedBudget:
    """The reading judged by the file."""
    return judge_budget(case(budget), read, MODEL, provenance(stack, dirty=dirty), file)


def accepted(*stacks: Stack) -> BudgetFile:
    """A file with the three budgets, of the host's one for each stack (default: torch 2.13)."""
    file = None
    for stack in stacks or (TORCH13,):
        new = [judged(budget, reading(budget), file, stack) for budget in BUDGETS]
        file = propose_budgets(new, PLATFORM, file, Asked("the first")).file or file
    assert file is not None
    return file
