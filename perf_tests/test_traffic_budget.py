"""Property: a steady step issues exactly the collectives that the ledger names: kind, dtype, count and bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures import ledger
from fixtures.ledger import Precision
from fixtures.ranks.pool import RankPool
from perf_tests.budgets import ARMS, CASE_IDS, CASES, readings

pytestmark = pytest.mark.cpu


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
