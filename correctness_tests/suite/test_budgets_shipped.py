"""The budgets that ship are valid, in the stored form, recorded from committed code, and speak of what has tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.gate.budget_files import SCHEMA, budgets_path, load_budgets, render_budgets, schema_text
from fixtures.gate.budgets import BUDGETS, BY_STACK, BudgetCase
from fixtures.session.budgets import BUDGET_ARMS, PLATFORM, WORKLOADS

pytestmark = pytest.mark.cpu

FOLDER = Path(__file__).resolve().parents[2] / "baselines"
PATH = budgets_path(FOLDER, PLATFORM.key)


def test_shipped_budgets_are_in_the_stored_form() -> None:
    """The file loads, and rendering it gives the same bytes."""
    assert PATH.read_text() == render_budgets(load_budgets(PATH)), f"{PATH} was edited out of its stored form"


def test_schema_is_up_to_date() -> None:
    """The JSON Schema beside it is the records'."""
    assert (FOLDER / SCHEMA).read_text() == schema_text(), (
        f"run: python -m fixtures.gate.budget_files > baselines/{SCHEMA}"
    )


def test_every_case_has_its_entries_and_no_other() -> None:
    """Each workload and arm: one entry a budget, of the host's one for each of the three stacks."""
    entries = [BudgetCase.parse(key) for key in load_budgets(PATH).entries]
    cases = [(workload, arm, budget) for workload in WORKLOADS for arm in BUDGET_ARMS for budget in BUDGETS]
    found = sorted({(case.workload, case.arm, case.budget) for case, _ in entries})
    assert found == sorted(cases)
    stacks = {str(stack) for _, stack in entries if stack}
    assert stacks == {"torch 2.9, Python 3.13", "torch 2.13, Python 3.11", "torch 2.14, Python 3.11"}
    assert len(entries) == sum(len(stacks) if budget in BY_STACK else 1 for _, _, budget in cases)


def test_they_were_recorded_from_committed_code() -> None:
    """Every entry names its commit, and none a dirty tree."""
    provenances = [entry.provenance for entry in load_budgets(PATH).entries.values()]
    assert [p for p in provenances if p.dirty or not p.commit] == []
