"""Frozen parameters are gathered where a pass needs them, never reduced, and never left gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from correctness_tests.modules import row_range
from correctness_tests.training import Pair, backward, check_same, shard_pair, whole
from fixtures.meters.collectives import CollectivesMeter
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

WORLD_SIZE = 4
Sent = tuple[str, int]


def padded_bytes(parameters: Sequence[nn.Parameter]) -> int:
    """Bytes of the message that gathers or reduces whole parameters: N equal chunks of rows each, float32."""
    return sum(4 * row_range(p.shape[0], 0, WORLD_SIZE)[1] * WORLD_SIZE * p[0].numel() for p in parameters)


def pair_with_frozen(names: Sequence[str]) -> Pair:
    """The model with every parameter frozen whose name starts with one of these."""
    model = Pair()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(tuple(names)))
    return model


def sent_in_a_step(names: Sequence[str]) -> tuple[list[Sent], list[Sent]]:
    """Collectives of forward and of backward on rank 0 of 4, with these parameters frozen; the unit must end sharded.

    On the fake group: only what is issued counts.
    """
    with playing_rank(0, WORLD_SIZE) as platform:
        model = shard_pair(pair_with_frozen(names), platform.mesh())
        with CollectivesMeter() as forward:
            loss = model(torch.ones(2, 3)).sum()
        with CollectivesMeter() as backwards:
            loss.backward()
        kept = [name for name, p in model.named_parameters() if not isinstance(p, DTensor)]
        assert kept == [], f"left gathered after the step: {kept}"
    return [(e.kind, e.bytes) for e in forward.events], [(e.kind, e.bytes) for e in backwards.events]


def reduced(sent: Sequence[Sent]) -> list[int]:
    """Bytes of each reduce-scatter."""
    return [size for kind, size in sent if kind == "reduce-scatter"]


def check_reduced(names: Sequence[str]) -> None:
    """Fail unless each unit reduces exactly the bytes of what trains in it, and the forward gathers all of each."""
    whole_model, model = Pair(), pair_with_frozen(names)
    forward, backwards = sent_in_a_step(names)
    units = (model.first, model.second)
    gathered = [("all-gather", padded_bytes(list(unit.parameters()))) for unit in (whole_model.first, model.second)]
    assert forward == gathered, f"{names} frozen: the forward sent {forward}, expected {gathered}"
    expected = [
        size for unit in reversed(units) if (size := padded_bytes([p for p in unit.parameters() if p.requires_grad]))
    ]
    assert reduced(backwards) == expected, (
        f"{names} frozen: reduce-scatters of {reduced(backwards)} bytes, expected {expected}. "
        "A frozen parameter was reduced, or one that trains was not."
    )


class IgnoresInput(nn.Linear):
    """A linear layer that takes a second input and does not use it."""

    def forward(self, x: Tensor, unused: Tensor) -> Tensor:  # type: ignore[override]
        """Apply to ``x``; (B, 4) -> (B, 4)."""
        return super().forward(x)


class HalfFrozen(nn.Module):
    """A frozen layer whose unused input needs a gradient, and one that trains; (B, 4), (B, 4) -> 0-dim."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = IgnoresInput(4, 4)
        self.trained = nn.Linear(4, 4)
        with torch.no_grad():
            for i, parameter in enumerate(self.parameters()):
                parameter.copy_((torch.arange(float(parameter.numel())) * (2 + i) % 5 - 2).view(parameter.shape))
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor, learned: Tensor) -> Tensor:
        """Sum of the trained layer on the frozen one, and of the learned input."""
        y: Tensor = (self.trained(self.frozen(x, learned)) + learned).sum()
        return y


def gradients_beside_unused_input(shard: bool) -> dict[str, Tensor]:
    """On a rank: gradients of two passes over the same data, accumulated, whole."""
    model = HalfFrozen()
    if shard:
        for module in (model.frozen, model.trained, model):
            fully_shard(module, mesh=current().platform.mesh())
    for _ in range(2):
        model(torch.arange(8.0).view(2, 4), torch.ones(2, 4, requires_grad=True)).backward()
    return {name: whole(p.grad) for name, p in model.named_parameters() if p.grad is not None}


def frozen_twin(steps: int) -> dict[str, bool]:
    """On a rank: whether each parameter has a gradient after some backward passes with a frozen first unit."""
    model = shard_pair(pair_with_frozen(["first."]), current().platform.mesh())
    for step in range(steps):
        backward(model, step, current().rank)
    return {name: p.grad is not None for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    "names",
    [(), ("first.up",), ("first.up", "second.down", "second.bias"), ("second.",)],
    ids=["none", "one", "half", "unit"],
)
def test_only_what_trains_is_reduced(names: tuple[str, ...]) -> None:
    """Each unit's reduce-scatter carries the bytes of its parameters that train; a frozen unit has none."""
    check_reduced(names)


def test_a_frozen_unit_in_the_middle_is_gathered_for_backward() -> None:
    """A frozen unit above one that trains is gathered twice, forward and backward: input gradients need its weights."""
    _, backwards = sent_in_a_step(["second."])
    assert [kind for kind, _ in backwards].count("all-gather") == 2


@pytest.mark.xfail(
    raises=AssertionError,
    reason="backward prefetch goes by the order of the forward and gathers the unit before, although nothing below it "
    "trains and no gradient will pass through it (beside pytorch/pytorch#117510: gathers and frees that do not pair)",
)
def test_a_frozen_first_unit_is_not_gathered_again() -> None:
    """A frozen unit through which no gradient passes is gathered in forward only."""
    _, backwards = sent_in_a_step(["first."])
    assert [kind for kind, _ in backwards].count("all-gather") == 1


def test_a_frozen_first_unit_has_no_gradients(ranks: Callable[[int], RankPool]) -> None:
    """On real ranks, backward after backward, the frozen unit gets no gradient and the other one does."""
    for found in ranks(2).run(frozen_twin, 2):
        assert found == {name: name.startswith("second.") for name, _ in Pair().named_parameters()}


def test_an_unused_input_that_needs_a_gradient_does_no_harm(ranks: Callable[[int], RankPool]) -> None:
    """A frozen unit with an unused input that needs a gradient (pytorch/pytorch#117510) trains as the plain model."""
    pool = ranks(2)
    for rank, (found, expected) in enumerate(
        zip(pool.run(gradients_beside_unused_input, True), pool.run(gradients_beside_unused_input, False), strict=True)
    ):
        check_same(found, expected, f"rank {rank}", "The same data on both ranks: the mean is the plain gradient.")
