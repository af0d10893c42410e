"""Row-wise work on shards gives the full tensor's rows and moves nothing: through local tensors and through DTensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard

from correctness_tests.modules import rows_of_rank
from correctness_tests.rows import Shape, full_parameters, sharded
from correctness_tests.versions import TORCH
from fixtures.meters.collectives import CollectivesMeter
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

SHAPES: list[Shape] = [(5, 3), (8, 4), (13, 2)]
"""On four ranks: one has no row, a multiple, uneven; the squares of a row add up without rounding."""


def row_norms(x: Tensor) -> Tensor:
    """Norm of each row, (rows, C) -> (rows, 1)."""
    norms: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return norms


ROW_WISE: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(1),
    "maximum": lambda x: x.amax(1),
    "softmax": lambda x: torch.softmax(x * x / 16, 1),  # of squares: it would be the same for rows that count up
    "mean": lambda x: x.mean(1, keepdim=True),
    "normalised": lambda x: x / row_norms(x),
    "int8 scale": lambda x: x.abs().amax(1, keepdim=True) / 127,
    "quantized": lambda x: (x / (x.abs().amax(1, keepdim=True) / 127)).round(),
}
"""Functions of a matrix, each row of the result from the same row of the argument."""


FEW_ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    **ROW_WISE,
    "top element": lambda x: x.topk(1, 1)[0],
    "sorted": lambda x: x.sort(1)[0],
    "layer norm": lambda x: nn.functional.layer_norm(x, x.shape[1:]),
}
"""Functions that are tried on fewer rows than ranks too."""

GATHERED = {"mean"} if TORCH >= (2, 14) else {"top element", "sorted"} | ({"layer norm"} if TORCH > (2, 9) else set())
"""Those for which DTensor gathers the tensor when it has fewer rows than there are ranks: another set by version."""


@dataclass(frozen=True)
class RowWise:
    """What a function gave on a rank: through DTensor and on the local tensor, and what it sent and where it lies."""

    through_dtensor: Tensor
    on_local: Tensor
    sent: list[tuple[str, int]]
    placements: tuple[Any, ...]


class RowNormalisedSGD(torch.optim.Optimizer):
    """Moves each row by ``lr`` times its gradient over the gradient's norm; a row without a gradient stays."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad / row_norms(p.grad).clamp_min(1.0))


def work_of_this_rank(function: str) -> list[RowWise]:
    """On a rank: the function of each sharded parameter, its collectives with their bytes counted."""
    found = []
    for parameter in sharded(SHAPES, current().platform, current().rank):
        with CollectivesMeter() as meter:
            result = ROW_WISE[function](parameter.detach())
            on_local = ROW_WISE[function](parameter.to_local().detach())
            assert isinstance(result, DTensor)
            through = result.to_local()
        found.append(RowWise(through, on_local, [(e.kind, e.bytes) for e in meter.events], result.placements))
    return found


def check_row_wise(pool: RankPool, function: str) -> None:
    """Fail unless each rank gets its rows of the function of the full tensor, bit for bit, and sends nothing."""
    for rank, found in enumerate(pool.run(work_of_this_rank, function)):
        for full, work in zip(full_parameters(SHAPES), found, strict=True):
            where = f"{function}, rank {rank} of {pool.world_size}, parameter of shape {tuple(full.shape)}"
            assert work.sent == [], f"{where}: issued {work.sent}, expected no collective and 0 bytes"
            assert work.placements == (Shard(0),), f"{where}: the result lies {work.placements}, expected Shard(0)"
            expected = rows_of_rank(ROW_WISE[function](full.detach()), rank, pool.world_size)
            for how, values in (("through DTensor", work.through_dtensor), ("on the local tensor", work.on_local)):
                assert torch.equal(values, expected), f"{where}, {how}: {values.tolist()}, expected {expected.tolist()}"


def column_sums(shapes: Sequence[Shape]) -> list[tuple[Tensor, int]]:
    """On a rank: each parameter's sum over dim 0, whole, and how many collectives it took."""
    found = []
    for parameter in sharded(shapes, current().platform, current().rank):
        with CollectivesMeter() as meter:
            sums = parameter.detach().sum(0)
            assert isinstance(sums, DTensor)
            values = sums.full_tensor()
        found.append((values, len(meter.events)))
    return found


def linear() -> nn.Linear:
    """A linear layer of whole numbers whose 7 rows no world size divides."""
    layer = nn.Linear(3, 7, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(21.0).view(7, 3) % 5 - 2)
    return layer


def batch_of(rank: int) -> Tensor:
    """A rank's own batch of whole numbers, (4, 3)."""
    return torch.randint(-3, 4, (4, 3), generator=torch.Generator().manual_seed(rank)).float()


def step_on_shards() -> tuple[Tensor, list[str]]:
    """On a rank: the rows after one step of row-normalised SGD, and the collectives of the optimizer."""
    layer = linear()
    fully_shard(layer, mesh=current().platform.mesh())
    optimizer = RowNormalisedSGD(layer.parameters(), lr=0.5)
    (layer(batch_of(current().rank)) * torch.arange(7.0)).sum().backward()
    with CollectivesMeter() as meter:
        optimizer.step()
    assert isinstance(layer.weight, DTensor)
    return layer.weight.to_local().detach(), [event.kind for event in meter.events]


def check_step(pool: RankPool) -> None:
    """Fail unless every rank's rows after the step are those of one process that averaged the ranks' gradients.

    Gradients are whole numbers over a power of two, so their mean and the squares of a row are exact; division and
    square root round alike for the same numbers.
    """
    layer = linear()
    for rank in range(pool.world_size):
        ((layer(batch_of(rank)) * torch.arange(7.0)).sum() / pool.world_size).backward()
    RowNormalisedSGD(layer.parameters(), lr=0.5).step()
    assert not torch.equal(layer.weight, linear().weight), "the step moved nothing"
    for rank, (rows, sent) in enumerate(pool.run(step_on_shards)):
        assert sent == [], f"rank {rank}: the optimizer's step issued {sent}, expected no collective"
        expected = rows_of_rank(layer.weight.detach(), rank, pool.world_size)
        assert torch.equal(rows, expected), f"rank {rank}: {rows.tolist()} after the step, expected {expected.tolist()}"


@pytest.mark.parametrize("function", ROW_WISE)
def test_row_wise_functions_move_nothing(ranks: Callable[[int], RankPool], function: str) -> None:
    """On four ranks the function of a shard is the rank's rows of the function of the whole, with 0 bytes sent."""
    check_row_wise(ranks(4), function)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(
            name,
            marks=pytest.mark.xfail(
                name in GATHERED,
                raises=AssertionError,
                reason=f"torch {torch.__version__}: DTensor's rule for this operator wants a row on every rank and "
                "gathers the tensor otherwise; 2.13 did so for topk, sort and layer_norm, 2.14 does for mean",
            ),
        )
        for name in FEW_ROWS
    ],
)
def test_fewer_rows_than_ranks_move_nothing_either(function: str) -> None:
    """A row-wise function of three rows over four ranks sends nothing, and its result stays cut by rows."""
    with playing_rank(0, 4) as platform:
        (parameter,) = sharded([(3, 7)], platform, 0)
        with CollectivesMeter() as meter:
            result = FEW_ROWS[function](parameter.detach())
        assert isinstance(result, DTensor)
        assert meter.events == [], f"{function} of (3, 7) over 4 ranks sent {meter.events}"
        assert result.placements == (Shard(0),)


def test_a_row_normalised_step_moves_nothing(ranks: Callable[[int], RankPool]) -> None:
    """One step of row-normalised SGD on shards equals the step on full tensors, bit for bit, without a collective."""
    check_step(ranks(4))


def test_a_reduction_over_rows_does_communicate(ranks: Callable[[int], RankPool]) -> None:
    """The control: a sum over dim 0 takes a collective on every rank, and is the full tensor's."""
    for found in ranks(4).run(column_sums, SHAPES):
        for full, (values, collectives) in zip(full_parameters(SHAPES), found, strict=True):
            assert collectives > 0, "a column sum was counted as 0 collectives: the meter sees nothing here"
            assert torch.equal(values, full.detach().sum(0))
