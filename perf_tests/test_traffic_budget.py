"""Property: a steady step issues exactly the collectives that the ledger names and that were accepted, in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures import ledger
from fixtures.budget_plugin import parametrize_budget
from fixtures.budgets import Budgeted, Budgets
from fixtures.ledger import Precision
from fixtures.ranks.pool import RankPool
from perf_tests.budgets import ARMS, CASE_IDS, CASES, readings

pytestmark = pytest.mark.cpu


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every arm of the suite's own workloads, or of the one that ``--workload`` names."""
    parametrize_budget(metafunc, "traffic")


def test_messages_are_the_accepted(budgets: Budgets, wanted: Budgeted) -> None:
    """Phase, kind, dtype and bytes of every message, in order, equal the stored budget: of a model of one's own too."""
    budgets.check(wanted)


@pytest.mark.parametrize(("world_size", "workload", "precision"), CASES, ids=CASE_IDS)
@pytest.mark.parametrize("strategy", ARMS)
def test_messages_are_the_ledgers(
    ranks: Callable[[int], RankPool], world_size: int, strategy: str, workload: str, precision: Precision
) -> None:
    """Every rank's collectives equal the ledger's; DDP's by dtype and bytes, since its buckets set the count."""
    for rank, reading in enumerate(readings(ranks(world_size), strategy, workload, precision)):
        known = ledger.steady_collectives(strategy, reading.blocks, reading.root, world_size, precision)
        read = ledger.comparable(strategy, reading.tallies)
        assert read == known, (
            f"collectives of one step, {strategy} of {workload} in {precision}, rank {rank} of cpu-gloo-{world_size}:\n"
            f"  measured {read}\n  ledger   {known}\n"
            "A gather more is a unit gathered twice or resharded too early; other bytes are a dtype or a padding that "
            "changed. Print CollectivesMeter.events in perf_tests/budgets.py:read_arm for the order."
        )
