"""Property: DDP's all-reduces are the buckets that its rule makes of the gradients in the order they become ready."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures import ledger
from fixtures.ledger import Precision
from fixtures.measurements import Settings
from fixtures.meters.collectives import CollectivesMeter
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.training import Arm, Trainer
from fixtures.workloads import Workload, unit_shapes
from perf_tests.phase_arms import Size

pytestmark = pytest.mark.cpu

SIZE = Size(layers=6, width=512, hidden=1536, rows=1)
"""36 MiB of float32 gradients in matrices of 3 MiB: the first bucket, one of 25 MiB and what is left."""


def large() -> Workload:
    """The workload of this size."""
    return SIZE.workload("large")


def messages(precision: Precision) -> list[tuple[str, int]]:
    """Dtype and bytes of each all-reduce of the third step: DDP rebuilds its buckets after the first."""
    trainer = Trainer(Arm(f"{__name__}:large", "ddp", Settings(precision=precision)), current().platform)
    trainer.step()
    trainer.step()
    with CollectivesMeter() as meter:
        trainer.step()
    return [(event.dtype, event.bytes) for event in meter.events]


@pytest.mark.parametrize("precision", ["mixed", "fp32"])
def test_buckets_are_the_ledgers(solo: Callable[[int], RankPool], precision: Precision) -> None:
    """Count, order and bytes of a steady step's all-reduces; three of them here."""
    workload = large()
    blocks, root = unit_shapes(workload, workload.model())
    ready = ledger.ready_order(SIZE.activations("ddp", precision), blocks, root)
    known, read = ledger.ddp_buckets(ready), solo(8).run(messages, precision)[0]
    assert len(known) == 3
    assert read == known, (
        f"all-reduces of one step, ddp of {SIZE} in {precision}, rank 0 of cpu-solo-8:\n  measured {read}\n  ledger   "
        f"{known}\nOther sizes, same sum: gradients become ready in another order, or the bucket rule changed (read "
        "compute_bucket_assignment_by_size of torch's reducer). Another sum: test_traffic_budget.py says what moved."
    )
