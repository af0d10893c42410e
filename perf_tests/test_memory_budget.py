"""Property: what a rank holds at rest, after each phase and at each phase's peak is to the byte what was accepted."""

from __future__ import annotations

import pytest

from fixtures.session.budget_plugin import parametrize_budget
from fixtures.session.budgets import Budgeted, Budgets

pytestmark = pytest.mark.cpu


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every arm of the suite's own workloads, or of the one that ``--workload`` names."""
    parametrize_budget(metafunc, "memory")


def test_bytes_are_the_accepted(budgets: Budgets, wanted: Budgeted) -> None:
    """Resident bytes, and bytes after and at the peak of forward, backward and optimizer, equal the stored budget."""
    budgets.check(wanted)
