"""A weight that two modules share stays one weight, and all of its rows train on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from correctness_tests.training import check_same, whole
from correctness_tests.versions import wrong_on_torch_2_9
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

ROWS = 7
"""Rows of the shared weight: no world size divides them."""

Wrap = Literal["root", "list"]


class Tied(nn.Module):
    """An embedding whose weight is the head's too: tokens (B,) int64 -> logits (B, V)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(ROWS, 3)
        self.head = nn.Linear(3, ROWS, bias=False)
        with torch.no_grad():
            self.tokens.weight.copy_((torch.arange(3.0 * ROWS) * 2 % 5 - 2).view(ROWS, 3))
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Look up and project back."""
        logits: Tensor = self.head(self.tokens(tokens))
        return logits


def shard(model: Tied, mesh: DeviceMesh, wrap: Wrap) -> None:
    """Shard the model with the weight in one unit: the root's, or one of both modules."""
    if wrap == "list":
        fully_shard([model.tokens, model.head], mesh=mesh)
    fully_shard(model, mesh=mesh)


def backward(model: Tied, rank: int) -> None:
    """One rank's backward pass over whole numbers: its own tokens; every token in some rank's batch."""
    tokens = torch.arange(rank, ROWS + rank) % ROWS
    (model(tokens) * torch.arange(1.0 + rank, ROWS + 1 + rank)).sum().backward()


def after_a_step(wrap: Wrap) -> tuple[bool, list[str], dict[str, Tensor]]:
    """On a rank: whether the weight is still shared, the names of the parameters, and the weight before and after."""
    model = Tied()
    shard(model, current().platform.mesh(), wrap)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-4)
    backward(model, current().rank)
    optimizer.step()
    tied = model.tokens.weight is model.head.weight
    weights = {"tokens.weight": whole(model.tokens.weight), "head.weight": whole(model.head.weight)}
    return tied, [name for name, _ in model.named_parameters()], weights


def check_tied(pool: RankPool, wrap: Wrap = "root") -> None:
    """Fail unless one SGD step gives the plain model's weight in both places, every row moved, bit for bit."""
    plain = Tied()
    for rank in range(pool.world_size):
        backward(plain, rank)
    assert plain.tokens.weight.grad is not None
    assert plain.tokens.weight.grad.any(1).all(), "a row has no gradient: whether it moves would say nothing"
    expected = (plain.tokens.weight - 2.0**-4 * plain.tokens.weight.grad / pool.world_size).detach()
    for rank, (tied, names, weights) in enumerate(pool.run(after_a_step, wrap)):
        where = f"rank {rank} of {pool.world_size}, shared weight in the {wrap}'s unit"
        assert tied, f"{where}: the modules no longer share one parameter"
        assert names == ["tokens.weight"], f"{where}: parameters are {names}"
        check_same(weights, dict.fromkeys(weights, expected), where, "A row that stays is pytorch/pytorch#176076.")


@pytest.mark.parametrize("wrap", ["root", "list"])
def test_every_row_of_a_shared_weight_trains(ranks: Callable[[int], RankPool], wrap: Wrap) -> None:
    """On four ranks, uneven rows: one step gives the plain model's shared weight, last rank's rows included."""
    check_tied(ranks(4), wrap)


@wrong_on_torch_2_9("fully_shard takes such a weight without a word, into both units")
def test_a_weight_shared_by_two_units_is_refused() -> None:
    """Two units that share a weight are refused at the first forward, with the remedy (pytorch/pytorch#176076)."""
    with playing_rank(0, 4) as platform:
        model = Tied()
        for module in (model.tokens, model.head, model):
            fully_shard(module, mesh=platform.mesh())
        with pytest.raises(ValueError, match="shared with a parameter already managed by another FSDP group"):
            model(torch.arange(ROWS))
