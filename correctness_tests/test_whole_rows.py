"""FSDP2 gives each rank complete rows of every parameter: those that torch.chunk gives it, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from correctness_tests.rows import Shape, full_parameters, rows_of, shapes_around, sharded
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu


def shards_of_this_rank(shapes: Sequence[Shape]) -> list[torch.Tensor]:
    """On a rank: this rank's shard of each parameter, as a plain tensor."""
    return [p.to_local().detach() for p in sharded(shapes, current().platform, current().rank)]


def check_shards(shapes: Sequence[Shape], shards: Sequence[torch.Tensor], rank: int, world_size: int) -> None:
    """Fail unless one rank's shards, (rows of the rank, ...) each, are its rows of the full parameters."""
    for full, shard in zip(full_parameters(shapes), shards, strict=True):
        expected = rows_of(full, rank, world_size)
        assert torch.equal(shard, expected), (
            f"rank {rank} of {world_size}, parameter of shape {tuple(full.shape)}: holds {tuple(shard.shape)} "
            f"{shard.tolist()}, torch.chunk gives it {tuple(expected.shape)} {expected.tolist()}. A shard that is not "
            "the rank's own rows breaks row-wise work and checkpoints: look at how fully_shard cuts dim 0. "
            "Next: correctness_tests/test_gradients_match_ddp.py says whether training is wrong too."
        )


def check_whole_rows(pool: RankPool, shapes: Sequence[Shape]) -> None:
    """Fail unless every real rank of the pool holds its whole rows."""
    for rank, shards in enumerate(pool.run(shards_of_this_rank, shapes)):
        check_shards(shapes, shards, rank, pool.world_size)


@st.composite
def worlds_and_shapes(draw: st.DrawFn) -> tuple[int, list[Shape]]:
    """A world size up to 16, and shapes around it."""
    world_size = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 16]))
    return world_size, draw(shapes_around(world_size))


@settings(max_examples=25)
@given(worlds_and_shapes())
def test_every_rank_played_in_turn_holds_its_whole_rows(case: tuple[int, list[Shape]]) -> None:
    """For any shapes and up to 16 ranks, played one after the other, each shard is that rank's rows."""
    world_size, shapes = case
    for rank in range(world_size):
        with playing_rank(rank, world_size) as platform:
            shards = [p.to_local().detach() for p in sharded(shapes, platform, rank)]
        check_shards(shapes, shards, rank, world_size)


@pytest.mark.parametrize("world_size", [2, 4])
def test_every_gloo_rank_holds_its_whole_rows(ranks: Callable[[int], RankPool], world_size: int) -> None:
    """On real gloo ranks, for any shapes, each shard is that rank's rows."""

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(shapes_around(world_size))
    def check(shapes: list[Shape]) -> None:
        check_whole_rows(ranks(world_size), shapes)

    check()
