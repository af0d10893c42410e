"""Each strategy sets the model up as the experiment does, and its step is one whole training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor

from correctness_tests.gradients import uneven_gpt2
from fixtures.errors import UsageError
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.strategies import STRATEGIES, Precision, build_model, get_strategy, rank_generator
from fixtures.workloads import Workload

pytestmark = pytest.mark.cpu

Ranks = Callable[[int], RankPool]

FSDP2 = ("fsdp2", "fsdp2-noreshard")


def apply(name: str, workload: Workload, precision: Precision = "fp32") -> nn.Module:
    """On a rank: the workload's model under a strategy."""
    platform, rank = current().platform, current().rank
    model = build_model(workload, seed=1337)
    return get_strategy(name).apply(model, workload, platform.mesh(), platform.device(rank), precision)


def one_step(name: str, precision: Precision = "fp32") -> dict[str, Any]:
    """On a rank: take one step; report what it marked, returned and left behind."""
    workload = uneven_gpt2()
    module = apply(name, workload, precision)
    optimizer = workload.optimizer(module.parameters())
    batch = workload.batch(rank_generator(1337, current().rank))
    alive: dict[str, bool] = {}

    def mark(phase: str) -> None:
        alive[phase] = any(p.grad is not None for p in module.parameters())

    loss = get_strategy(name).step(module, workload, batch, optimizer, precision, mark)
    left = [p for p in module.parameters() if p.grad is not None]
    return {"alive": alive, "loss": loss, "graph": loss.requires_grad, "left": len(left), "weights": weights(module)}


def weights(module: nn.Module) -> dict[str, Tensor]:
    """On a rank: the full parameters by name, whatever wraps them."""
    if isinstance(module, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(module):
            return {_bare(name): p.detach().clone() for name, p in module.named_parameters()}
    return {
        _bare(name): (p.full_tensor() if isinstance(p, DTensor) else p).detach().clone()
        for name, p in module.named_parameters()
    }


def _bare(name: str) -> str:
    return name.removeprefix("module.").replace("_fsdp_wrapped_module.", "")


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("precision", ["mixed", "fp32"])
def test_a_step_marks_its_phases_and_leaves_no_gradient(ranks: Ranks, name: str, precision: Precision) -> None:
    """A step marks its three phases, has gradients from backward on, leaves none, and detaches its loss."""
    for found in ranks(2).run(one_step, name, precision):
        assert found["alive"] == {"forward": False, "backward": True, "optimizer": True}
        assert found["left"] == 0
        assert not found["graph"]
        assert found["loss"].shape == ()


@pytest.mark.parametrize("name", ["fsdp1", *FSDP2])
def test_a_step_takes_every_rank_to_ddps_weights(ranks: Ranks, name: str) -> None:
    """On two ranks, in float32, one SGD step leads to the weights that DDP's step leads to, bit for bit."""
    expected = ranks(2).run(one_step, "ddp")[0]["weights"]
    for found in ranks(2).run(one_step, name):
        assert found["weights"].keys() == expected.keys()
        assert all(torch.equal(found["weights"][key], expected[key]) for key in expected)


def dtypes(name: str, precision: Precision) -> dict[str, set[torch.dtype]]:
    """On a rank: dtypes that the projections compute in, and of the loss."""
    workload = uneven_gpt2()
    module = apply(name, workload, precision)
    outputs: list[torch.dtype] = []
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.register_forward_hook(lambda _, args, output: outputs.append(output.dtype))
    loss = get_strategy(name).forward(module, workload, workload.batch(rank_generator(1337, 0)), precision)
    return {"compute": set(outputs), "loss": {loss.dtype}}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("precision", "compute"), [("mixed", torch.bfloat16), ("fp32", torch.float32)])
def test_precision_decides_the_compute_dtype(
    ranks: Ranks, name: str, precision: Precision, compute: torch.dtype
) -> None:
    """Projections compute in bfloat16 under ``mixed``, in float32 under ``fp32``; the loss is float32 in both."""
    for found in ranks(2).run(dtypes, name, precision):
        assert found["compute"] == {compute}
        assert found["loss"] == {torch.float32}


def units(name: str) -> dict[str, bool]:
    """On a rank: whether the root and each block is a unit of its own, and which are unsharded after forward."""
    workload = uneven_gpt2()
    module = apply(name, workload)
    workload.loss(module, workload.batch(rank_generator(1337, 0)))
    state = {
        "root": isinstance(module, FSDPModule),
        "root unsharded": not _sharded(module.get_parameter("norm.weight")),
    }
    for i, block in enumerate(workload.blocks(module)):
        state[f"block {i}"] = isinstance(block, FSDPModule)
        state[f"block {i} unsharded"] = not all(_sharded(p) for p in block.parameters())
    return state


def _sharded(parameter: Tensor) -> bool:
    return isinstance(parameter, DTensor)


@pytest.mark.parametrize("name", FSDP2)
def test_fsdp2_reshards_blocks_behind_the_forward_and_never_the_root(ranks: Ranks, name: str) -> None:
    """Each block and the root is a unit; after forward blocks are resharded by fsdp2 only, the root by neither."""
    kept = name == "fsdp2-noreshard"
    blocks = {f"block {i}{what}": value for i in range(2) for what, value in (("", True), (" unsharded", kept))}
    assert ranks(2).run(units, name) == [{"root": True, "root unsharded": True, **blocks}] * 2


def shared_gradient_storages() -> tuple[int, int]:
    """On a rank: how many gradients DDP has, in how many storages."""
    workload = uneven_gpt2()
    module = apply("ddp", workload)
    storages: list[int] = []

    def mark(phase: str) -> None:
        if phase == "backward":
            storages.extend(p.grad.untyped_storage().data_ptr() for p in module.parameters() if p.grad is not None)

    optimizer = workload.optimizer(module.parameters())
    get_strategy("ddp").step(module, workload, workload.batch(rank_generator(1337, 0)), optimizer, "fp32", mark)
    return len(storages), len(set(storages))


def test_ddps_gradients_are_views_of_its_buckets(ranks: Ranks) -> None:
    """DDP has no gradients beside its buckets: all 28 of a small model lie in one storage."""
    assert ranks(2).run(shared_gradient_storages) == [(28, 1)] * 2


def fsdp1_unit_count() -> int:
    """On a rank: FSDP1 units of the model, the root included."""
    return len(FullyShardedDataParallel.fsdp_modules(apply("fsdp1", uneven_gpt2())))


def test_fsdp1_wraps_the_workloads_blocks(ranks: Ranks) -> None:
    """FSDP1 has one unit a block and the root, as FSDP2 has."""
    assert ranks(2).run(fsdp1_unit_count) == [3, 3]


def weights_and_data() -> tuple[float, Tensor]:
    """On a rank: a digest of the initial weights, and the batch."""
    workload = uneven_gpt2()
    model = build_model(workload, seed=1337)
    return sum(p.double().sum().item() for p in model.parameters()), workload.batch(
        rank_generator(1337, dist.get_rank())
    )


def test_ranks_start_alike_and_draw_different_data(ranks: Ranks) -> None:
    """Every rank builds the same weights from the seed and draws its own batch."""
    (weights_0, batch_0), (weights_1, batch_1) = ranks(2).run(weights_and_data)
    assert weights_0 == weights_1
    assert not torch.equal(batch_0, batch_1)


def test_building_a_model_leaves_the_random_state_alone() -> None:
    """build_model seeds for itself only: the same seed gives the same model, and torch's state is what it was."""
    before = torch.get_rng_state()
    first, second = (build_model(uneven_gpt2(), seed=7).state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_that_cannot_be_built_is_a_usage_error() -> None:
    """A model function that raises on a rank gives the error that it gives everywhere."""
    with pytest.raises(UsageError, match="building its model raised TypeError"):
        build_model(replace(uneven_gpt2(), model=partial(nn.Linear, 1)), seed=1)


def test_an_unknown_strategy_lists_the_known_ones() -> None:
    """get_strategy names the unknown name and all that it knows."""
    with pytest.raises(UsageError, match=r"unknown strategy 'fsdp3'.*single, ddp, fsdp1, fsdp2, fsdp2-noreshard"):
        get_strategy("fsdp3")
