"""Property: between two steps a rank of the extra zero3 holds exactly the bytes that the ledger names, by buffer.

Account 4 of the write-up: DeepSpeed's stage 3 held 2.53 GiB a rank where FSDP2 held 1.27.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from fixtures.ledger import Precision
from fixtures.ranks.pool import RankPool
from fixtures.workloads import Workload, mlp
from perf_tests.budgets import UNEVEN, check_resident, readings

pytestmark = [pytest.mark.cpu, pytest.mark.zero3]

BIG = f"{__name__}:big"
"""A workload whose matrices, of 140,000 elements, DeepSpeed's defaults shard, and whose biases they leave whole."""

CASES: list[tuple[int, str, Precision]] = [
    (2, UNEVEN, "mixed"),
    (2, UNEVEN, "fp32"),
    (4, UNEVEN, "mixed"),
    (2, BIG, "mixed"),
    (2, "gpt2-rehearsal", "mixed"),
]
CASE_IDS = [f"{workload.rpartition(':')[2]}-{precision}-{world_size}" for world_size, workload, precision in CASES]

big: Callable[[], Workload] = partial(mlp, "big", layers=2, width=200, hidden=700)


@pytest.mark.parametrize(("world_size", "workload", "precision"), CASES, ids=CASE_IDS)
@pytest.mark.parametrize("strategy", ["zero3", "zero3-defaults"])
def test_resident_bytes_are_the_ledgers(
    ranks: Callable[[int], RankPool], world_size: int, strategy: str, workload: str, precision: Precision
) -> None:
    """Every rank's resident bytes equal the sum of the ledger's buffers: padded runs, buckets and whole parameters."""
    check_resident(
        readings(ranks(world_size), strategy, workload, precision),
        strategy,
        workload,
        precision,
        "More: DeepSpeed keeps something else between steps (gathered parameters, a bucket, a copy). Less: it frees a "
        "buffer that the ledger names. Next: the release notes of DeepSpeed, and fixtures/ledger/zero3.py, which names "
        "the function that makes each buffer.",
    )
