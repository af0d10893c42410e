"""Modules for the tests of sharding: any tree of units that hypothesis can draw, and what a rank must hold of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from correctness_tests.rows import Shape

DTYPES = (torch.float32, torch.bfloat16, torch.float64)
MODULUS = 251
"""Elements count up modulo a prime below 256: whole numbers that bfloat16 holds, no two neighbours' rows alike."""


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter: its shape, its dtype, whether it trains, and whether it is a view into a larger tensor."""

    shape: Shape
    dtype: torch.dtype = torch.float32
    trains: bool = True
    view: bool = False

    def build(self, start: int) -> nn.Parameter:
        """Return the parameter, its elements counting up from ``start``."""
        count = math.prod(self.shape)
        before = 5 if self.view else 0  # elements of the larger tensor that are not the parameter's
        values = (torch.arange(start - before, start + count + before) % MODULUS).to(self.dtype)
        return nn.Parameter(values[before : before + count].view(self.shape), requires_grad=self.trains)


@dataclass(frozen=True)
class UnitSpec:
    """A module with parameters of its own and children; ``sharded`` says whether it is a unit of sharding."""

    parameters: tuple[ParameterSpec, ...]
    children: tuple[UnitSpec, ...] = ()
    sharded: bool = True


class Unit(nn.Module):
    """The module of a UnitSpec: parameters ``p0``, ``p1``, ...; children ``c0``, ``c1``, ...; no forward."""

    def __init__(self, spec: UnitSpec) -> None:
        super().__init__()
        self.sharded = spec.sharded
        start = 1
        for i, parameter in enumerate(spec.parameters):
            self.register_parameter(f"p{i}", parameter.build(start))
            start += math.prod(parameter.shape)
        for i, child in enumerate(spec.children):
            self.add_module(f"c{i}", Unit(child))


def shard_units(unit: Unit, mesh: DeviceMesh) -> None:
    """Shard every unit from the leaves up, and the root in any case."""

    def visit(module: Unit, is_root: bool) -> None:
        for child in module.children():
            assert isinstance(child, Unit)
            visit(child, is_root=False)
        if module.sharded or is_root:
            fully_shard(module, mesh=mesh)

    visit(unit, is_root=True)


def sharded_parameters(module: nn.Module) -> dict[str, DTensor]:
    """Return the module's parameters by name; AssertionError names one that is not sharded."""
    found: dict[str, DTensor] = {}
    for name, parameter in module.named_parameters():
        assert isinstance(parameter, DTensor), f"{name} is not a DTensor after fully_shard: {type(parameter).__name__}"
        found[name] = parameter
    return found


def row_range(rows: int, rank: int, world_size: int) -> tuple[int, int]:
    """First row of a rank and the first after it: chunks of ceil(rows / N), the last ones short or empty.

    The definition of dim-0 chunking in arithmetic, not by ``torch.chunk``, so that both can be wrong only apart.
    """
    chunk = -(-rows // world_size)
    return min(rank * chunk, rows), min((rank + 1) * chunk, rows)


def rows_of_rank(full: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """The rows of a full tensor that dim-0 chunking gives to a rank, (rows of the rank, ...)."""
    first, last = row_range(full.shape[0], rank, world_size)
    return full[first:last]


def modules_around(world_size: int) -> st.SearchStrategy[UnitSpec]:
    """Trees of units, up to three deep, of parameters whose rows lie around N and that are up to 5000 wide."""
    telling = {1, 2, 3, 7, 13, max(world_size - 1, 1), world_size, world_size + 1, 2 * world_size, 3 * world_size - 1}
    rows = st.sampled_from(sorted(telling))
    narrow = st.tuples(rows, st.lists(st.integers(1, 4), max_size=3)).map(lambda s: (s[0], *s[1]))
    wide = st.tuples(st.sampled_from(sorted(telling & {1, 2, 3, 7})), st.sampled_from([257, 5000]))
    parameter = st.builds(
        ParameterSpec,
        shape=st.one_of(narrow, narrow, narrow, wide),
        dtype=st.sampled_from(DTYPES),
        trains=st.booleans(),
        view=st.booleans(),
    )
    parameters = st.lists(parameter, min_size=1, max_size=3).map(tuple)
    leaf = st.builds(UnitSpec, parameters, sharded=st.booleans())
    inner = st.builds(UnitSpec, parameters, st.lists(leaf, max_size=2).map(tuple), st.booleans())
    return st.builds(UnitSpec, parameters, st.lists(inner, max_size=2).map(tuple))


def describe_rank(rank: int, world_size: int, name: str, shape: Sequence[int]) -> str:
    """Where a failing check looked: rank, world size, parameter and its full shape."""
    return f"rank {rank} of {world_size}, parameter {name} of shape {tuple(shape)}"
