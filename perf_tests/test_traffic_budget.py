"""Property: a steady step issues exactly the collectives that the ledger names and that were accepted, in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures import ledger
from fixtures.ledger import Precision
from fixtures.measurements import ALONE
from fixtures.ranks.pool import RankPool
from fixtures.session.budget_plugin import parametrize_budget
from fixtures.session.budgets import BUDGET_ARMS, WORKLOADS, WORLD_SIZE, Budgeted, Budgets
from fixtures.workloads import build_cheaply, resolve_workload, unit_shapes
from perf_tests.budgets import ARMS, CASE_IDS, CASES, readings

pytestmark = pytest.mark.cpu


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every arm of the suite's own workloads, or of the one that ``--workload`` names."""
    parametrize_budget(metafunc, "traffic")


def test_messages_are_the_accepted(budgets: Budgets, wanted: Budgeted) -> None:
    """Phase, kind, dtype and bytes of every message, in order, equal the stored budget: of a model of one's own too."""
    budgets.check(wanted)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("arm", BUDGET_ARMS)
def test_what_is_stored_is_the_ledgers(budgets: Budgets, workload: str, arm: str) -> None:
    """What the budgets read, as rank 0 of 8, is what the ledger says of 8 ranks: no entry accepts anything else."""
    blocks, root = unit_shapes(resolve_workload(workload), build_cheaply(resolve_workload(workload)))
    tallies = ledger.steady_collectives(arm, blocks, root, WORLD_SIZE, "mixed")
    known = {f"{t.kind} {t.dtype} {what}": getattr(t, what) for t in tallies for what in ("count", "bytes")}
    read = dict(budgets.reading(workload, arm).readings["traffic"].figures)
    if arm == "ddp":  # its buckets set the count, which the stored budget holds
        del known["all-reduce float32 count"], read["all-reduce float32 count"]
    assert read == known, (
        f"one step of {arm}, {workload} on cpu-solo-{WORLD_SIZE}: read {read}, the ledger says {known}. The stored "
        "budget may agree with the reading all the same: then both left the ledger."
    )


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


def test_one_device_alone_sends_nothing(ranks: Callable[[int], RankPool]) -> None:
    """The arm that stands for computation alone, against which DDP's step is held: no rank may wait for another."""
    for rank, reading in enumerate(readings(ranks(2), ALONE, "mlp", "mixed")):
        assert reading.tallies == [], (
            f"collectives of one step, {ALONE} of mlp in mixed, rank {rank} of cpu-gloo-2: measured {reading.tallies}, "
            "and every rank was to train by itself. What DDP's step takes beyond this is no longer its communication."
        )
