"""Property: on one device that plays rank 0 of N, a step costs the host what was accepted; ``--platform solo`` alone.

A host that does more for the same step is time that a fast accelerator waits for. The same meters and the same stored
figures as the cpu tier's budget of that name; in a rehearsal they are its very entries.
"""

from __future__ import annotations

import pytest

from fixtures.measurements import ARMS
from fixtures.session.budget_plugin import parametrize_budget
from fixtures.session.budgets import Budgeted, Budgets

pytestmark = pytest.mark.gpu


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each arm of the workload that is trained."""
    parametrize_budget(metafunc, "host", ARMS)


def test_host_work_of_a_played_rank(budgets: Budgets, wanted: Budgeted) -> None:
    """Calls of each phase are within 2% of the stored budget, operators and garbage equal it."""
    budgets.check(wanted)
