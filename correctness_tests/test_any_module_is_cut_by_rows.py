"""However a module is built and nested, dim-0 chunking decides which rows of which parameter a rank holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correctness_tests.modules import (
    ParameterSpec,
    Unit,
    UnitSpec,
    describe_rank,
    modules_around,
    row_range,
    rows_of_rank,
    shard_units,
    sharded_parameters,
)
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

WORLD_SIZES = (1, 2, 3, 5, 8, 13, 64)
Shards = dict[str, torch.Tensor]

UNEVEN = UnitSpec(
    (ParameterSpec((5, 3)), ParameterSpec((1,), torch.bfloat16), ParameterSpec((3, 5000))),
    (UnitSpec((ParameterSpec((7, 2, 2), view=True), ParameterSpec((4, 1, 2, 3), trains=False))),),
)
"""A fixed module: rows fewer than, equal to, and not a multiple of the ranks; nested, wide, a view, frozen."""


def shards_of_this_rank(spec: UnitSpec) -> Shards:
    """On a rank: its local tensor of each parameter."""
    unit = Unit(spec)
    shard_units(unit, current().platform.mesh())
    return {name: parameter.to_local().detach() for name, parameter in sharded_parameters(unit).items()}


def shards_played_in_turn(spec: UnitSpec, world_size: int) -> list[Shards]:
    """The local tensors of each rank of N, played one after the other in this process."""
    found = []
    for rank in range(world_size):
        with playing_rank(rank, world_size) as platform:
            unit = Unit(spec)
            shard_units(unit, platform.mesh())
            found.append({name: p.to_local().detach() for name, p in sharded_parameters(unit).items()})
    return found


def check_rows(spec: UnitSpec, by_rank: Sequence[Shards]) -> None:
    """Fail unless each rank's local tensors are its rows, bit for bit, and together they are each row once, in order.

    An empty shard is part of it: no rows, the trailing shape, the dtype.
    """
    world_size = len(by_rank)
    full = {name: parameter.detach() for name, parameter in Unit(spec).named_parameters()}
    for rank, shards in enumerate(by_rank):
        assert list(shards) == list(full), f"rank {rank}: parameters {list(shards)}, expected {list(full)}"
        for name, whole in full.items():
            expected, held = rows_of_rank(whole, rank, world_size), shards[name]
            assert held.dtype == whole.dtype
            assert torch.equal(held, expected), (
                f"{describe_rank(rank, world_size, name, whole.shape)}: holds {tuple(held.shape)}, first elements "
                f"{held.flatten()[:6].tolist()}; expected rows {row_range(whole.shape[0], rank, world_size)}, "
                f"{tuple(expected.shape)}, {expected.flatten()[:6].tolist()}. A shard that is not the rank's own rows "
                "breaks row-wise work and checkpoints: look at how fully_shard cuts dim 0."
            )
    for name, whole in full.items():
        joined = torch.cat([shards[name] for shards in by_rank])
        assert torch.equal(joined, whole), f"{name}: the {world_size} shards in rank order are not the parameter"


def check_fixed_module(pool: RankPool) -> None:
    """Fail unless the real ranks of a pool hold their rows of the fixed module."""
    check_rows(UNEVEN, pool.run(shards_of_this_rank, UNEVEN))


@st.composite
def worlds_and_modules(draw: st.DrawFn) -> tuple[int, UnitSpec]:
    """A world size up to 64, and a module whose rows lie around it."""
    world_size = draw(st.sampled_from(WORLD_SIZES))
    return world_size, draw(modules_around(world_size))


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(worlds_and_modules())
def test_every_rank_of_up_to_64_holds_its_rows(case: tuple[int, UnitSpec]) -> None:
    """For any module and up to 64 ranks, played in turn, each holds its rows; the shards cover every row once."""
    world_size, spec = case
    check_rows(spec, shards_played_in_turn(spec, world_size))


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_the_fixed_module_is_cut_by_rows_at_every_size(world_size: int) -> None:
    """At each world size, from one rank to many more ranks than rows, the fixed module is cut by rows."""
    check_rows(UNEVEN, shards_played_in_turn(UNEVEN, world_size))


@pytest.mark.parametrize("world_size", [2, 4])
def test_every_gloo_rank_holds_its_rows(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """For any module, real gloo ranks hold their rows of every parameter."""

    @settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
    @given(modules_around(world_size))
    def check(spec: UnitSpec) -> None:
        check_rows(spec, ranks(world_size).run(shards_of_this_rank, spec))

    check()


def test_eight_gloo_ranks_hold_their_rows(ranks: Callable[[int], RankPool]) -> None:
    """On eight real ranks, more than most of its parameters have rows, the fixed module is cut by rows."""
    check_fixed_module(ranks(8))
