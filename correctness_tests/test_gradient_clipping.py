"""Clipping by the global norm uses the norm of the whole gradient, on every rank and in every mesh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.distributed.tensor import DTensor

from correctness_tests.gradients import UNIT_ROUNDOFF, Gradients, check_differences, differences
from correctness_tests.variants import VARIANTS, Net, backward, batches, gradients_of, shard, train_alone
from correctness_tests.versions import wrong_on_torch_2_9
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current

pytestmark = pytest.mark.cpu

MAX_NORM = 1.0
CASES = [(2, "plain"), (4, "hsdp")]


PARTIAL = pytest.mark.xfail(
    raises=AssertionError,
    reason="such a norm of sharded gradients is a partial DTensor, and float() and item() read this rank's part of it, "
    "another one on every rank, until full_tensor() is called (pytorch#170862, pytorch#166638)",
)


@dataclass(frozen=True)
class Clipped:
    """What clipping gave one rank: the clipped gradients and the norm, put together by ``full_tensor()``."""

    gradients: Gradients
    norm: float


def gradients_on_this_rank(name: str) -> Net:
    """On a rank: the sharded model after one backward."""
    variant = VARIANTS[name]
    net = shard(Net(variant.kind), variant, current().world_size)
    for batch in next(batches(current().rank, variant, 1)):
        backward(net, batch)
    return net


def clip(name: str) -> Clipped:
    """On a rank: one step's gradients under FSDP2, clipped."""
    net = gradients_on_this_rank(name)
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
    assert isinstance(norm, DTensor)
    return Clipped(gradients_of(net), float(norm.full_tensor()))


def truth(name: str, world_size: int) -> tuple[float, Gradients]:
    """The norm of one process's gradient in float64, and the clipped gradient."""
    (gradients,) = train_alone(name, world_size, 1).gradients
    norm = float(torch.cat([g.flatten() for g in gradients.values()]).norm())
    return norm, {key: g * (MAX_NORM / norm) for key, g in gradients.items()}


def tolerance(gradients: Gradients) -> float:
    """Relative error of a norm of n exact float32 elements and of what it clips, u = 2**-24.

    A sum of n squares, in any order and with norms of norms in between, takes at most 3n roundings, and a square root
    halves what they come to: 1.5 n u. The coefficient takes 4 more (the root, the 1e-6 that is added, the division,
    the product), and 1e-6 itself, added on up to 8 ranks, is below 8e-6 of a norm above 1.
    """
    elements = sum(g.numel() for g in gradients.values())
    return (1.5 * elements + 4) * UNIT_ROUNDOFF


@pytest.mark.parametrize(("world_size", "name"), CASES)
def test_clipped_gradients_are_those_of_one_process(
    ranks: Callable[[int], RankPool], world_size: int, name: str
) -> None:
    """The norm does exceed the limit, and each rank's clipped gradients are one process's, up to rounding."""
    norm, clipped = truth(name, world_size)
    assert norm > 100 * MAX_NORM, f"a norm of {norm} would hide whether anything was clipped"
    relative = tolerance(clipped) + 8e-6 / norm
    bounds = {key: relative * g.abs() for key, g in clipped.items()}
    found = [differences([rank.gradients], [clipped], [bounds]) for rank in ranks(world_size).run(clip, name)]
    check_differences(
        found,
        f"clipped gradients, {name}, cpu-gloo-{world_size}",
        f"more than {relative:.2g} of each.",
        "A constant factor is a norm of something else than the whole gradient, such as one rank's shard.",
    )


@pytest.mark.parametrize(("world_size", "name"), CASES)
def test_the_norm_put_together_is_the_whole_gradients(
    ranks: Callable[[int], RankPool], world_size: int, name: str
) -> None:
    """``full_tensor()`` of the norm that is returned is the norm of the whole gradient on every rank."""
    norm, clipped = truth(name, world_size)
    for rank, found in enumerate(ranks(world_size).run(clip, name)):
        assert found.norm == pytest.approx(norm, rel=tolerance(clipped)), (
            f"rank {rank} of {world_size}: total norm {found.norm}, one process's {norm}"
        )


def norms_as_read(name: str) -> dict[str, float]:
    """On a rank: norms of FSDP2's gradients as ``float()`` and ``item()`` read them, by kind."""
    net = gradients_on_this_rank(name)
    grads = [p.grad for p in net.parameters() if p.grad is not None]
    return {
        "total": float(torch.nn.utils.get_total_norm(grads)),
        "total of maxima": float(torch.nn.utils.get_total_norm(grads, norm_type=torch.inf)),
        "of one gradient": float(torch.linalg.vector_norm(grads[0])),
    }


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("total", marks=wrong_on_torch_2_9("the total norm of sharded gradients is a partial DTensor too")),
        pytest.param("total of maxima", marks=PARTIAL),
        pytest.param("of one gradient", marks=PARTIAL),
    ],
)
def test_a_norm_reads_the_same_on_every_rank(ranks: Callable[[int], RankPool], kind: str) -> None:
    """``float()`` of a norm, as a training loop logs it, is the whole gradient's on every rank."""
    (gradients,) = train_alone("plain", 2, 1).gradients
    expected = {
        "total": truth("plain", 2)[0],
        "total of maxima": max(float(g.abs().max()) for g in gradients.values()),
        "of one gradient": float(gradients["first.weight"].norm()),
    }
    for rank, found in enumerate(ranks(2).run(norms_as_read, "plain")):
        assert found[kind] == pytest.approx(expected[kind], rel=tolerance(gradients)), (
            f"rank {rank} of 2: the norm ({kind}) reads {found[kind]}, one process's is {expected[kind]}"
        )
