"""The norm of a shard's rows is the norm of the full tensor's rows, and takes no communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from torch.distributed.tensor import DTensor

from correctness_tests.rows import Shape, full_parameters, rows_of, shapes_around, sharded
from fixtures.meters.collectives import CollectivesMeter
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu


@dataclass(frozen=True)
class Norms:
    """Norms of one parameter as one rank has them, and the collectives that it issued to get them."""

    values: torch.Tensor
    collectives: list[str]


def row_norms(x: torch.Tensor) -> torch.Tensor:
    """Euclidean norm of each row, (rows, ...) -> (rows,)."""
    norms: torch.Tensor = torch.linalg.vector_norm(x, dim=tuple(range(1, x.dim())))
    return norms


def row_norms_of_this_rank(shapes: Sequence[Shape]) -> list[Norms]:
    """On a rank: the row norms of each sharded parameter, of which this rank gets those of its rows."""
    found = []
    for parameter in sharded(shapes, current().platform, current().rank):
        with CollectivesMeter() as meter:
            norms = row_norms(parameter.detach())
            assert isinstance(norms, DTensor)
            values = norms.to_local()
        found.append(Norms(values, [event.kind for event in meter.events]))
    return found


def column_norms(shapes: Sequence[Shape]) -> list[Norms]:
    """On a rank: the norm of each column, which no rank has all of, so that it takes a collective."""
    found = []
    for parameter in sharded(shapes, current().platform, current().rank):
        with CollectivesMeter() as meter:
            norms = torch.linalg.vector_norm(parameter.detach(), dim=0)
            assert isinstance(norms, DTensor)
            values = norms.full_tensor()
        found.append(Norms(values, [event.kind for event in meter.events]))
    return found


def check_row_norms(pool: RankPool, shapes: Sequence[Shape]) -> None:
    """Fail unless every rank gets its rows' norms, bit for bit, without a collective.

    A row has at most 64 elements, whole numbers below 509: the sum of their squares is below 2**24, so float32 has no
    rounding before the square root, in whatever order it adds.
    """
    for rank, found in enumerate(pool.run(row_norms_of_this_rank, shapes)):
        for full, norms in zip(full_parameters(shapes), found, strict=True):
            where = f"rank {rank} of {pool.world_size}, parameter of shape {tuple(full.shape)}"
            assert not norms.collectives, (
                f"{where}: row norms issued {norms.collectives}, 0 expected. The rank holds its rows whole, so "
                "DTensor moved data for nothing: compare its sharding rule for this norm with the last version's."
            )
            expected = row_norms(rows_of(full, rank, pool.world_size))
            assert torch.equal(norms.values, expected), (
                f"{where}: row norms are {norms.values.tolist()}, those of the full tensor's rows {expected.tolist()}. "
                "The shard is not the rank's rows, or the norm mixes them: run correctness_tests/test_whole_rows.py."
            )


@pytest.mark.parametrize("world_size", [2, 4])
def test_row_norms_need_no_communication(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """For any shapes of two to four dimensions each rank computes its rows' norms alone."""

    @settings(max_examples=25)
    @given(shapes_around(world_size, min_dims=2))
    def check(shapes: list[Shape]) -> None:
        check_row_norms(ranks(world_size), shapes)

    check()


def test_column_norms_do_communicate(ranks: Callable[[int], RankPool]) -> None:
    """The control: a norm over dim 0 is counted as a collective on every rank, and is the full tensor's."""
    shape = (5, 3)
    expected = torch.linalg.vector_norm(full_parameters([shape])[0], dim=0)
    for (norms,) in ranks(2).run(column_norms, [shape]):
        assert norms.collectives, "a column norm was counted as 0 collectives: the meter sees nothing here"
        torch.testing.assert_close(norms.values, expected)
