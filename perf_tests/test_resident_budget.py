"""Property: between two steps a rank holds exactly the bytes that the ledger names, buffer by buffer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures import ledger
from fixtures.ledger import Precision
from fixtures.ranks.pool import RankPool
from perf_tests.budgets import ARMS, CASE_IDS, CASES, HALVED, UNEVEN, check_resident, readings

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(("world_size", "workload", "precision"), CASES, ids=CASE_IDS)
@pytest.mark.parametrize("strategy", ARMS)
def test_resident_bytes_are_the_ledgers(
    ranks: Callable[[int], RankPool], world_size: int, strategy: str, workload: str, precision: Precision
) -> None:
    """Every rank's resident bytes equal the sum of the ledger's buffers, uneven shards and padding included."""
    found = readings(ranks(world_size), strategy, workload, precision)
    check_resident(
        found,
        strategy,
        workload,
        precision,
        "More: something outlives the step (unsharded parameters, gradients, a bucket). Less: the ledger names a "
        "buffer that is gone. Print meter phases with perf_tests/budgets.py:read_arm to see in which phase.",
    )


@pytest.mark.parametrize("strategy", ["single", *ARMS])
def test_gradient_bytes_are_the_ledgers(ranks: Callable[[int], RankPool], strategy: str) -> None:
    """Setting the gradients to None frees exactly what the ledger says: nothing where they are bucket views."""
    for rank, reading in enumerate(readings(ranks(2), strategy, UNEVEN, "mixed")):
        measured = reading.gradient_bytes
        known = ledger.gradient_bytes(strategy, reading.units, 2)
        assert measured == known, (
            f"gradients, {strategy} of uneven in mixed, rank {rank} of cpu-gloo-2: measured {measured:,} bytes, the "
            f"ledger says {known:,}, difference {measured - known:+,}. DDP with more: its gradients are no longer "
            "views into the buckets. FSDP2 with more: an unsharded gradient or another reduce dtype outlives its unit."
        )


@pytest.mark.parametrize("strategy", ["single", *ARMS])
def test_bfloat16_parameters_are_the_ledgers(ranks: Callable[[int], RankPool], strategy: str) -> None:
    """With pure bfloat16 parameters, resident bytes and those of the gradients are the ledger's for that dtype."""
    for rank, reading in enumerate(readings(ranks(2), strategy, HALVED, "fp32")):
        units = [[ledger.Parameter(tuple(shape), "bfloat16") for shape in unit] for unit in reading.units]
        buffers = ledger.resident_buffers(strategy, units, 2, rank, "fp32") | {"batch": reading.held_bytes}
        gradients = ledger.gradient_bytes(strategy, units, 2)
        assert (reading.resident_bytes, reading.gradient_bytes) == (sum(buffers.values()), gradients), (
            f"resident and gradients, {strategy} of halved in bfloat16, rank {rank} of cpu-gloo-2: measured "
            f"{reading.resident_bytes:,} and {reading.gradient_bytes:,} bytes, the ledger says "
            f"{ledger.explain(buffers)} and {gradients:,}. "
            "More: something is float32 that was bfloat16. See test_resident_bytes_are_the_ledgers."
        )


@pytest.mark.parametrize(("strategy", "per_parameter"), [("ddp", 16), ("fsdp2", 3)])
def test_resident_bytes_per_parameter(ranks: Callable[[int], RankPool], strategy: str, per_parameter: int) -> None:
    """On 4 ranks DDP holds 16 bytes a parameter and FSDP2 12/4, but for the batch, Adam's steps and the mesh."""
    reading = readings(ranks(4), strategy, "mlp", "mixed")[0]
    parameters = [shape for unit in reading.units for shape in unit]
    small = reading.held_bytes + 4 * len(parameters) + (4 * 4 if strategy == "fsdp2" else 0)
    psi = ledger.num_params(parameters)
    measured = (reading.resident_bytes - small) / psi
    assert measured == per_parameter, (
        f"resident, {strategy} of mlp, rank 0 of cpu-gloo-4: measured {measured:.4f} bytes a parameter, published "
        f"arithmetic {per_parameter}, difference {measured - per_parameter:+.4f}. "
        "test_resident_bytes_are_the_ledgers says which buffer."
    )
