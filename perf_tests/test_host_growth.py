"""Property: a step leaves nothing behind in the process: no tensor, no object, no entry of a container or a cache."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from fixtures.measurements import Settings
from fixtures.meters.growth import Growth, measure_growth
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.session.budgets import BUDGET_ARMS, WORLD_SIZE
from fixtures.training import Arm, Trainer

pytestmark = pytest.mark.cpu

STEPS = 20
WARMUP = 3


def growth_of(strategy: str, workload: str = "mlp") -> Growth:
    """On a rank: what 20 steady steps of the arm leave behind, the garbage collector off."""
    trainer = Trainer(Arm(workload, strategy, Settings()), current().platform)
    for _ in range(WARMUP):
        trainer.step()
    gc.collect()
    return measure_growth(trainer.step, STEPS)


@pytest.mark.parametrize("strategy", BUDGET_ARMS)
def test_nothing_grows(solo: Callable[[int], RankPool], strategy: str) -> None:
    """Over 20 steps no tensor more, even uncollected; of objects only garbage, so many a step; no entry of a cache."""
    growth: Growth = solo(WORLD_SIZE).run(growth_of, strategy)[0]
    assert (growth.tensors, growth.storages) == (0, 0), (
        f"{strategy} of mlp on cpu-solo-{WORLD_SIZE}: {STEPS} steps left {growth.tensors:+} tensors and "
        f"{growth.storages:+} storages behind while nothing was collected. Memory that only the collector frees is "
        "freed late: look for a reference cycle through a tensor, or a list that keeps them."
    )
    kept = {**growth.objects, **growth.entries, **growth.caches}
    assert not kept, (
        f"{strategy} of mlp on cpu-solo-{WORLD_SIZE}: {STEPS} steps left this behind, after a collection: {kept}. "
        "Something is appended to, or a cache is asked with a new key in every step: it grows for as long as training "
        "runs. Print fixtures/meters/growth.py:measure_growth of more steps to see it grow."
    )
    assert growth.garbage % STEPS == 0, (
        f"{strategy} of mlp on cpu-solo-{WORLD_SIZE}: {growth.garbage} objects in reference cycles after {STEPS} "
        "steps, which is not the same number in each step."
    )
