"""The contrast: FSDP1's flat shard is a range of elements, and which rows it severs follows from the shapes alone.

A severed row's norm cannot be had from the shard: two models whose shards on a rank are the same, bit for bit, have
different norms there. FSDP2's shards have no such pair, because each row lies whole on one rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from correctness_tests.modules import ParameterSpec, Unit, UnitSpec, shard_units, sharded_parameters
from correctness_tests.rows import Shape, shapes_around
from fixtures.platforms import playing_rank

pytestmark = pytest.mark.cpu


@dataclass(frozen=True)
class SeveredRow:
    """A row of a parameter that two ranks or more hold pieces of, on FSDP1; ``ranks`` are the first and last."""

    parameter: int
    row: int
    ranks: tuple[int, int]


def shard_length(shapes: Sequence[Shape], world_size: int) -> int:
    """Elements of one rank's flat shard: all elements over N, rounded up; the last rank's is padded with zeros."""
    return -(-sum(map(math.prod, shapes)) // world_size)


def severed_rows(shapes: Sequence[Shape], world_size: int) -> list[SeveredRow]:
    """The rows of a unit that FSDP1 severs, from the shapes alone: those with their ends in different shards."""
    length, start, found = shard_length(shapes, world_size), 0, []
    for i, shape in enumerate(shapes):
        width = math.prod(shape[1:])
        for row in range(shape[0]):
            ranks = (start // length, (start + width - 1) // length)
            if ranks[0] != ranks[1]:
                found.append(SeveredRow(i, row, ranks))
            start += width
    return found


def unit(shapes: Sequence[Shape]) -> Unit:
    """A module with a parameter of each shape."""
    return Unit(UnitSpec(tuple(map(ParameterSpec, shapes))))


def flat_shard(module: nn.Module, rank: int, world_size: int) -> torch.Tensor:
    """One rank's real flat parameter of FSDP1, 1-D; without its original parameters, so with no padding between."""
    with playing_rank(rank, world_size):
        wrapped = FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=False)
        (flat,) = wrapped.parameters()
        return flat.detach().clone()


def row_shards(module: Unit, rank: int, world_size: int) -> list[torch.Tensor]:
    """One rank's real shards of FSDP2."""
    with playing_rank(rank, world_size) as platform:
        shard_units(module, platform.mesh())
        return [p.to_local().detach().clone() for p in sharded_parameters(module).values()]


def changed(shapes: Sequence[Shape], row: SeveredRow, piece_of: int, world_size: int) -> Unit:
    """The module with one element of a severed row changed: one that rank ``piece_of`` holds on FSDP1."""
    module = unit(shapes)
    before = sum(math.prod(shape) for shape in shapes[: row.parameter])
    width = math.prod(shapes[row.parameter][1:])
    first = max(before + row.row * width, piece_of * shard_length(shapes, world_size))
    with torch.no_grad():
        module.get_parameter(f"p{row.parameter}").view(-1)[first - before] += 1000
    return module


def norm_of(module: nn.Module, row: SeveredRow) -> torch.Tensor:
    """The norm of that row in the whole model."""
    norm: torch.Tensor = torch.linalg.vector_norm(module.get_parameter(f"p{row.parameter}").detach()[row.row])
    return norm


CASES = st.sampled_from([2, 3, 4, 16]).flatmap(lambda n: st.tuples(st.just(n), shapes_around(n)))


@settings(max_examples=15)
@given(CASES)
@example((2, [(5, 7), (7,), (3, 7), (3,)]))
def test_a_flat_shard_is_the_range_of_elements_that_the_shapes_give(case: tuple[int, list[Shape]]) -> None:
    """On any rank the real flat parameter is elements r L to (r + 1) L of all parameters in a row, zeros after them."""
    world_size, shapes = case
    length = shard_length(shapes, world_size)
    flat = torch.cat([p.detach().flatten() for p in unit(shapes).parameters()])
    flat = torch.nn.functional.pad(flat, (0, length * world_size - flat.numel()))
    for rank in {0, 1, world_size - 1}:
        found = flat_shard(unit(shapes), rank, world_size)
        assert torch.equal(found, flat[rank * length : (rank + 1) * length]), (
            f"rank {rank} of {world_size}, shapes {shapes}: FSDP1 holds {found.tolist()}, expected elements "
            f"{rank * length} to {(rank + 1) * length}. The contrast with FSDP2 is computed from this range."
        )


@pytest.mark.parametrize(
    ("shapes", "world_size", "severed"),
    [
        ([(5, 7), (7,), (3, 7), (3,)], 2, [(0, 4)]),  # 66 elements, cut at 33: in row 4 of five rows of 7
        ([(4, 4)], 4, []),  # rows and shards coincide
        ([(3,), (4, 4)], 4, [(1, 0), (1, 1)]),  # the same matrix after a bias: 19 elements, cut at 5, 10 and 15
        ([(2, 6)], 3, [(0, 0), (0, 1)]),
    ],
)
def test_severed_rows_follow_from_the_shapes(shapes: list[Shape], world_size: int, severed: list[object]) -> None:
    """Which rows are severed, worked out by hand: even ones are, once a bias lies before them."""
    assert [(row.parameter, row.row) for row in severed_rows(shapes, world_size)] == severed


@settings(max_examples=10)
@given(CASES.filter(lambda case: bool(severed_rows(case[1], case[0]))))
@example((2, [(5, 7), (7,), (3, 7), (3,)]))
def test_a_severed_rows_norm_is_not_in_the_shard(case: tuple[int, list[Shape]]) -> None:
    """For each rank with a piece of a severed row: another model, the same shard bit for bit, another row norm."""
    world_size, shapes = case
    row = severed_rows(shapes, world_size)[0]
    for mine, other in (row.ranks, row.ranks[::-1]):
        model = changed(shapes, row, other, world_size)
        assert norm_of(model, row) != norm_of(unit(shapes), row)
        assert torch.equal(flat_shard(model, mine, world_size), flat_shard(unit(shapes), mine, world_size))


@settings(max_examples=10)
@given(CASES.filter(lambda case: bool(severed_rows(case[1], case[0]))))
def test_the_same_rows_norm_is_in_fsdp2s_shard(case: tuple[int, list[Shape]]) -> None:
    """The row that FSDP1 severs lies whole on exactly one rank of FSDP2, whose shard alone gives the norm."""
    world_size, shapes = case
    row = severed_rows(shapes, world_size)[0]
    held = [row_shards(unit(shapes), rank, world_size)[row.parameter] for rank in range(world_size)]
    after = [
        row_shards(changed(shapes, row, row.ranks[1], world_size), rank, world_size)[row.parameter]
        for rank in range(world_size)
    ]
    differ = [rank for rank in range(world_size) if not torch.equal(held[rank], after[rank])]
    assert len(differ) == 1, f"one element of row {row.row} changed the shards of ranks {differ} of {world_size}"
    shard, local = after[differ[0]], row.row - sum(shard.shape[0] for shard in held[: differ[0]])
    assert 0 <= local < len(shard), f"row {row.row} is held by rank {differ[0]}, whose rows are others"
    expected = norm_of(changed(shapes, row, row.ranks[1], world_size), row)
    assert torch.linalg.vector_norm(shard[local]) == expected, f"rank {differ[0]} holds {shard[local].tolist()}"


def test_pieces_of_a_severed_row_join_up() -> None:
    """The two ranks' pieces of the severed row of a 5 x 7 weight, end to start, are the row."""
    shapes = [(5, 7), (7,), (3, 7), (3,)]
    row = unit(shapes).get_parameter("p0").detach()[4]
    first, second = (flat_shard(unit(shapes), rank, 2) for rank in (0, 1))
    joined = torch.cat([first[28:], second[:2]])
    assert torch.equal(joined, row), f"ranks 0 and 1 hold {joined.tolist()} of row 4, {row.tolist()}"
