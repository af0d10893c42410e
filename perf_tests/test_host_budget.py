"""Property: a step costs the host the Python calls, operators and cyclic garbage that were accepted for this stack."""

from __future__ import annotations

import pytest

from fixtures.session.budget_plugin import parametrize_budget
from fixtures.session.budgets import Budgeted, Budgets

pytestmark = pytest.mark.cpu


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every arm of the suite's own workloads, or of the one that ``--workload`` names."""
    parametrize_budget(metafunc, "host")


def test_host_work_is_the_accepted(budgets: Budgets, wanted: Budgeted) -> None:
    """Calls of each phase, and of 4 blocks more, are within 2% of the stored budget; operators and garbage equal it."""
    budgets.check(wanted)
