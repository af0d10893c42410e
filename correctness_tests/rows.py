"""What the row tests share: shapes around a world size, a model that has them, and the rows a rank must hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from hypothesis import strategies as st
from torch import nn
from torch.distributed.tensor import DTensor

from fixtures.models import Rows
from fixtures.platforms import Platform
from fixtures.strategies import get_strategy
from fixtures.workloads import Workload

Shape = tuple[int, ...]


def shapes_around(world_size: int, min_dims: int = 1) -> st.SearchStrategy[list[Shape]]:
    """Shapes of one to four parameters, up to 4-D, whose rows are fewer than N, N, a multiple of N, 1, or prime."""
    telling = {1, max(world_size - 1, 1), world_size, world_size + 1, 2 * world_size, 3 * world_size - 1}
    rows = st.sampled_from(sorted(telling | {2, 3, 7, 13}))
    shape = st.tuples(rows, st.lists(st.integers(1, 4), min_size=min_dims - 1, max_size=3)).map(lambda s: (s[0], *s[1]))
    return st.lists(shape, min_size=1, max_size=4)


def rows_of(full: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """The rows that torch.chunk gives to a rank; none, in the same trailing shape, when there are not enough."""
    chunks = full.chunk(world_size)
    return chunks[rank] if rank < len(chunks) else full[:0]


def sharded(shapes: Sequence[Shape], platform: Platform, rank: int) -> list[DTensor]:
    """Shard parameters of these shapes as strategy fsdp2 does, on this rank of the open process group."""
    workload = Workload(
        name="rows",
        model=partial(Rows, shapes),
        batch=lambda generator: (),
        loss=lambda model, batch: torch.zeros(()),
        optimizer=partial(torch.optim.SGD, lr=1.0),
        blocks=lambda model: list(model.children()),
        tokens_per_batch=1,
    )
    module = get_strategy("fsdp2").apply(workload.model(), workload, platform.mesh(), platform.device(rank), "fp32")
    return [p for p in module.parameters() if isinstance(p, DTensor)]


def full_parameters(shapes: Sequence[Shape]) -> list[nn.Parameter]:
    """The same parameters, whole."""
    return list(Rows(shapes).parameters())
