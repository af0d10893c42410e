"""Process groups that jobs leave open are few: a rank's every job is slower for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist

from correctness_tests.meshes import mesh_of_two
from fixtures.platforms import Platform
from fixtures.ranks import RankPool, RankPools
from fixtures.ranks.worker import MAX_GROUPS
from fixtures.torch_internals import groups_open

pytestmark = pytest.mark.cpu

TWO = Platform.cpu(2)


@pytest.fixture
def pools() -> Iterator[RankPools]:
    """Pools of this test alone."""
    with RankPools() as pools:
        yield pools


def leave_groups(how_many: int) -> int:
    """On a rank: make groups of all ranks and leave them; how many are open."""
    for _ in range(how_many):
        dist.new_group([0, 1])
    return groups_open()


def give_groups_back(how_many: int) -> int:
    """On a rank: make groups one after the other and destroy each; how many are open."""
    for _ in range(how_many):
        group = dist.new_group([0, 1])
        dist.barrier()  # gloo calls a peer dead that closes its end while it still connects
        dist.destroy_process_group(group)
    return groups_open()


def ask_for_a_mesh() -> int:
    """On a rank: the mesh of two dimensions of the suite's own tests; how many groups are open."""
    mesh_of_two(1, 2, ("replicate", "shard"))
    return groups_open()


def test_too_many_groups_end_a_pool(pools: RankPools) -> None:
    """The job that leaves more than MAX_GROUPS passes, and the next test gets other ranks, which have one group."""
    pool = pools.get(TWO)
    assert pool.run(leave_groups, MAX_GROUPS) == [MAX_GROUPS + 1] * 2
    following = pools.get(TWO)
    assert following is not pool
    assert following.run(leave_groups, 0) == [1, 1]


def test_a_few_groups_cost_no_pool(pools: RankPools) -> None:
    """Up to MAX_GROUPS, the default one included, the ranks are kept."""
    pool = pools.get(TWO)
    assert pool.run(leave_groups, MAX_GROUPS - 1) == [MAX_GROUPS] * 2
    assert pools.get(TWO) is pool


def test_groups_given_back_cost_no_pool(pools: RankPools) -> None:
    """A job that destroys its groups may make any number."""
    pool = pools.get(TWO)
    assert pool.run(give_groups_back, MAX_GROUPS + 1) == [1, 1]
    assert pools.get(TWO) is pool


def test_jobs_share_a_mesh() -> None:
    """The second job that asks for the same mesh of two dimensions makes no group."""
    with RankPool(TWO) as pool:
        first = pool.run(ask_for_a_mesh)
        assert first > [1, 1]
        assert pool.run(ask_for_a_mesh) == first
