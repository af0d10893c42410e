"""A sharded parameter is a DTensor that remembers the whole: global shape, stride, dtype, placement, name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from correctness_tests.modules import (
    Unit,
    UnitSpec,
    describe_rank,
    modules_around,
    rows_of_rank,
    shard_units,
    sharded_parameters,
)
from correctness_tests.test_any_module_is_cut_by_rows import UNEVEN
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

Facts = dict[str, Any]


def facts_of(parameter: nn.Parameter | DTensor) -> Facts:
    """What a parameter says of itself, where a sharded one must say what the whole one did."""
    return {
        "shape": tuple(parameter.shape),
        "stride": parameter.stride(),
        "dtype": parameter.dtype,
        "requires_grad": parameter.requires_grad,
        "is_leaf": parameter.is_leaf,
        "numel": parameter.numel(),
    }


def check_facts(spec: UnitSpec, found: dict[str, Facts], rank: int, world_size: int) -> None:
    """Fail unless every sharded parameter says of itself what the whole one did."""
    for name, parameter in Unit(spec).named_parameters():
        expected = facts_of(parameter)
        differs = {k: (found[name][k], v) for k, v in expected.items() if found[name][k] != v}
        assert not differs, (
            f"{describe_rank(rank, world_size, name, parameter.shape)}: (found, expected) differ: {differs}. "
            "Optimizers and checkpoints go by what the DTensor says of the whole."
        )


def sharded_facts(spec: UnitSpec) -> tuple[dict[str, Facts], dict[str, torch.Tensor]]:
    """On a rank: what each sharded parameter says of itself, and the parameter gathered whole."""
    unit = Unit(spec)
    shard_units(unit, current().platform.mesh())
    parameters = sharded_parameters(unit)
    return {n: facts_of(p) for n, p in parameters.items()}, {n: p.full_tensor() for n, p in parameters.items()}


def check_whole(pool: RankPool) -> None:
    """Fail unless on real ranks every sharded parameter describes and gathers the whole one."""
    for rank, (facts, gathered) in enumerate(pool.run(sharded_facts, UNEVEN)):
        check_facts(UNEVEN, facts, rank, pool.world_size)
        for name, parameter in Unit(UNEVEN).named_parameters():
            where = describe_rank(rank, pool.world_size, name, parameter.shape)
            assert torch.equal(gathered[name], parameter), f"{where}: full_tensor() is not the whole parameter"


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(modules_around(8))
def test_a_shard_describes_the_whole_parameter(spec: UnitSpec) -> None:
    """For any module, first and last rank of 8: names, shape, stride, dtype, gradient flag; placement Shard(0)."""
    for rank in (0, 7):
        with playing_rank(rank, 8) as platform:
            mesh, unit = platform.mesh(), Unit(spec)
            shard_units(unit, mesh)
            parameters = sharded_parameters(unit)
            assert list(parameters) == [name for name, _ in Unit(spec).named_parameters()]
            check_facts(spec, {name: facts_of(p) for name, p in parameters.items()}, rank, 8)
            assert {p.placements for p in parameters.values()} == {(Shard(0),)}
            assert {p.device_mesh for p in parameters.values()} == {mesh}


@pytest.mark.parametrize("rank", range(6))
def test_hybrid_shards_are_cut_along_one_mesh_dimension(rank: int) -> None:
    """On a 2 x 3 mesh a rank holds the rows of its place among three, replicated over two, and says so."""
    with playing_rank(rank, 6):
        mesh, unit = init_device_mesh("cpu", (2, 3), mesh_dim_names=("replicate", "shard")), Unit(UNEVEN)
        shard_units(unit, mesh)
        parameters = sharded_parameters(unit)
        check_facts(UNEVEN, {name: facts_of(p) for name, p in parameters.items()}, rank, 6)
        for name, whole in Unit(UNEVEN).named_parameters():
            where = describe_rank(rank, 6, name, whole.shape)
            assert parameters[name].placements == (Replicate(), Shard(0)), f"{where}: {parameters[name].placements}"
            expected = rows_of_rank(whole.detach(), rank % 3, 3)
            held = parameters[name].to_local()
            assert torch.equal(held, expected), f"{where}: holds {held.tolist()}, expected {expected.tolist()}"


def test_a_shard_gathers_the_whole_parameter(ranks: Callable[[int], RankPool]) -> None:
    """On four real ranks full_tensor() of every parameter is the whole parameter, bit for bit."""
    check_whole(ranks(4))
