"""One step moves every parameter that trains, wherever the optimizer was built: none is left with a stale copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch

from correctness_tests.training import Pair, backward, shard_pair, whole_parameters
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

Built = Literal["after sharding", "after an evaluation"]


def rows_that_stay(built: Built) -> dict[str, list[int]]:
    """On a rank: the rows that one step of SGD leaves as they were, of each parameter."""
    model = shard_pair(Pair(), current().platform.mesh())
    if built == "after an evaluation":
        with torch.no_grad():
            model(torch.ones(2, 3))
        model.reshard()  # type: ignore[operator]
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-6)
    before = whole_parameters(model)
    for _ in range(2):
        (model(torch.ones(2, 3)) * torch.tensor([1.0, 2.0, 5.0])).sum().backward()
    optimizer.step()
    after = whole_parameters(model)
    return {
        name: [row for row in range(len(old)) if torch.equal(old[row], after[name][row])]
        for name, old in before.items()
    }


def check_every_parameter_moves(pool: RankPool, built: Built = "after sharding") -> None:
    """Fail unless one step moves each row whose gradient is not zero in one process."""
    plain = Pair()
    (plain(torch.ones(2, 3)) * torch.tensor([1.0, 2.0, 5.0])).sum().backward()
    expected = {
        n: [r for r, g in enumerate(p.grad) if not g.any()] for n, p in plain.named_parameters() if p.grad is not None
    }
    for rank, found in enumerate(pool.run(rows_that_stay, built)):
        assert found == expected, (
            f"rank {rank} of {pool.world_size}, optimizer built {built}: rows that one step left alone: {found}, "
            f"expected {expected} (no gradient). The optimizer holds other tensors than the module trains."
        )


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("built", ["after sharding", "after an evaluation"])
def test_one_step_moves_every_row(ranks: Callable[[int], RankPool], built: Built, world_size: int) -> None:
    """Each row with a gradient moves, with the optimizer built at once or after an evaluation.

    On two ranks the last has rows of every parameter; on four it has none.
    """
    check_every_parameter_moves(ranks(world_size), built)


@pytest.mark.xfail(
    raises=AssertionError,
    reason="fully_shard puts new parameters in the module, and nothing says that the optimizer trains the old ones "
    "(pytorch/pytorch#149205)",
)
def test_an_optimizer_built_before_sharding_holds_the_modules_parameters() -> None:
    """The parameters that an optimizer was given are still the module's after fully_shard."""
    with playing_rank(0, 2) as platform:
        model = Pair()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        shard_pair(model, platform.mesh())
        given = optimizer.param_groups[0]["params"]
        assert all(a is b for a, b in zip(given, model.parameters(), strict=True))


@pytest.mark.xfail(
    raises=AssertionError,
    reason="a unit that is not resharded after forward shows its gathered parameters; an optimizer built then trains "
    "those, and they are overwritten by the next gather (pytorch/pytorch#149205)",
)
def test_an_optimizer_built_after_a_forward_holds_the_modules_parameters() -> None:
    """The parameters that an optimizer is given after a forward are the module's after the backward too."""
    with playing_rank(0, 2) as platform:
        model = shard_pair(Pair(), platform.mesh(), reshard_after_forward=False)
        model(torch.ones(2, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        backward(model, 0, 0)
        given = optimizer.param_groups[0]["params"]
        assert all(a is b for a, b in zip(given, model.parameters(), strict=True))
