"""The extra strategy zero3, DeepSpeed's ZeRO stage 3: it trains as DDP does, on flat shards, resharded after use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from correctness_tests.gradients import (
    SEED,
    Difference,
    Gradients,
    check_differences,
    differences,
    train,
    uneven_gpt2,
    whole_number_mlp,
)
from correctness_tests.suite import rank_jobs
from correctness_tests.test_reduction_is_float32 import mean_of_bfloat16_gradients
from correctness_tests.training import whole_parameters
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.strategies import Precision, build_model, get_strategy, rank_generator
from fixtures.workloads import Workload, adamw

pytestmark = [pytest.mark.cpu, pytest.mark.zero3]

Ranks = Callable[[int], RankPool]
Make = Callable[[], Workload]

BOTH = ["zero3", "zero3-defaults"]
MEANING = (
    "Both saw the same data and weights, so DeepSpeed's reduction, its scale or a gathered weight is wrong; a stale "
    "weight shows only from step 1 on. Next: correctness_tests/test_gradients_match_ddp.py, then its release notes."
)


def apply(strategy: str, workload: Workload, precision: Precision = "fp32") -> Any:
    """On a rank: the workload's model under a strategy."""
    platform, rank = current().platform, current().rank
    model = build_model(workload, SEED)
    return get_strategy(strategy).apply(model, workload, platform.mesh(), platform.device(rank), precision)


def train_zero3(
    strategy_name: str, workload: Workload, steps: int, precision: Precision = "fp32"
) -> tuple[list[Gradients], Gradients]:
    """On a rank: train with new data in every step; the whole gradients of each step, and the masters at the end."""
    strategy, generator = get_strategy(strategy_name), rank_generator(SEED, current().rank)
    engine = apply(strategy_name, workload, precision)
    optimizer = strategy.optimizer(engine, workload)
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_grad

    taken: list[Gradients] = []

    def mark(phase: str) -> None:
        if phase == "backward":
            taken.append({name: safe_get_full_grad(p).clone() for name, p in engine.module.named_parameters()})

    for _ in range(steps):
        strategy.step(engine, workload, workload.batch(generator), optimizer, precision, mark)
    return taken, {name: safe_get_full_fp32_param(p).clone() for name, p in engine.module.named_parameters()}


def ddp_weights(workload: Workload, steps: int) -> Gradients:
    """On a rank: the weights of DDP after the same steps."""
    strategy, generator = get_strategy("ddp"), rank_generator(SEED, current().rank)
    module = apply("ddp", workload)
    optimizer = workload.optimizer(module.parameters())
    for _ in range(steps):
        strategy.step(module, workload, workload.batch(generator), optimizer, "fp32")
    return {name.removeprefix("module."): p for name, p in whole_parameters(module).items()}


def against_ddp(strategy: str, make: Make, steps: int) -> list[Difference]:
    """On a rank: the gradients of each step against DDP's, and the last weights as one step more."""
    gradients, weights = train_zero3(strategy, make(), steps)
    return differences([*gradients, weights], [*train("ddp", make(), steps), ddp_weights(make(), steps)])


def check_against_ddp(pool: RankPool, strategy: str, make: Make, steps: int) -> None:
    """Fail unless every gradient of every step and rank is DDP's, bit for bit, and so are the weights at the end."""
    check_differences(
        pool.run(against_ddp, strategy, make, steps),
        f"{strategy} against ddp, {make.__name__}, {pool.platform.key} (step {steps} is the weights at the end)",
        "0 expected, since no sum is rounded here or both round alike.",
        MEANING,
    )


@pytest.mark.parametrize("strategy", BOTH)
@pytest.mark.parametrize("world_size", [2, 4])
def test_whole_number_gradients_are_ddps_bit_for_bit(ranks: Ranks, world_size: int, strategy: str) -> None:
    """Where no sum is rounded, four SGD steps' gradients and the weights after them equal DDP's, bit for bit."""
    check_against_ddp(ranks(world_size), strategy, whole_number_mlp, steps=4)


@pytest.mark.parametrize("strategy", BOTH)
def test_gpt2_gradients_on_two_ranks_are_ddps_bit_for_bit(ranks: Ranks, strategy: str) -> None:
    """On two ranks, where a + b = b + a and halving is exact, GPT-2's gradients and weights equal DDP's too."""
    check_against_ddp(ranks(2), strategy, uneven_gpt2, steps=3)


def against_oracle(strategy: str) -> list[Difference]:
    """On a rank: the gradients of the first step in mixed precision against the float32 mean of bfloat16 gradients."""
    return differences(train_zero3(strategy, uneven_gpt2(), 1, "mixed")[0], [mean_of_bfloat16_gradients(uneven_gpt2())])


def test_mixed_precision_reduces_in_float32(ranks: Ranks) -> None:
    """On two ranks zero3's gradients are the float32 mean of each rank's bfloat16 gradients, bit for bit."""
    check_differences(
        ranks(2).run(against_oracle, "zero3"),
        "zero3 in mixed precision against the ranks' own bfloat16 gradients, cpu-gloo-2",
        "0 expected.",
        "An error near 2**-9 of the gradient is a reduction in bfloat16, as DeepSpeed's defaults have it: its "
        "configuration in fixtures/zero3.py no longer reaches it.",
    )


def test_deepspeeds_defaults_reduce_in_bfloat16(ranks: Ranks) -> None:
    """The control, and a fact of account 4: left to its defaults, DeepSpeed rounds the mean to bfloat16."""
    for found in ranks(2).run(against_oracle, "zero3-defaults"):
        worst = max(found, key=lambda difference: difference.error)
        assert 0 < worst.error <= 2**-7 * worst.largest


def adamw_step(strategy_name: str) -> tuple[list[str], list[str]]:
    """On a rank: parameters that a step of AdamW in mixed precision left alone, and shards that are not the masters."""
    workload = replace(uneven_gpt2(), optimizer=adamw)
    strategy, engine = get_strategy(strategy_name), apply(strategy_name, workload, "mixed")
    named = dict(engine.module.named_parameters())
    before = {name: own_master(p).clone() for name, p in named.items()}
    batch = workload.batch(rank_generator(SEED, current().rank))
    strategy.step(engine, workload, batch, strategy.optimizer(engine, workload), "mixed")
    after = {name: own_master(p) for name, p in named.items()}
    stayed = [name for name in named if len(before[name]) and torch.equal(before[name], after[name])]
    shards = {name: p.ds_tensor[: len(after[name])] for name, p in named.items()}
    return stayed, [name for name, shard in shards.items() if not torch.equal(shard, after[name].bfloat16())]


def own_master(parameter: Any) -> Tensor:
    """On a rank: its float32 master of a parameter, 1-D, without the padding, which DeepSpeed never sets."""
    from deepspeed.utils import safe_get_local_fp32_param

    master: Tensor = safe_get_local_fp32_param(parameter)
    return master[: max(0, parameter.ds_numel - current().rank * master.numel())]


@pytest.mark.parametrize("strategy", BOTH)
def test_a_step_moves_every_parameter_and_its_shard(ranks: Ranks, strategy: str) -> None:
    """One step of AdamW moves each parameter's masters on each rank, and the bfloat16 shards are those, rounded."""
    for rank, (stayed, stale) in enumerate(ranks(2).run(adamw_step, strategy)):
        assert (stayed, stale) == ([], []), (
            f"{strategy}, rank {rank} of 2: parameters that a step left alone: {stayed}; shards that are not their "
            f"masters in bfloat16: {stale}; none expected. DeepSpeed's step did not reach them, or was not copied back."
        )


def gathered(strategy_name: str) -> dict[str, list[str]]:
    """On a rank: the parameters that are whole when each phase of a steady step ends, and after the step."""
    workload = uneven_gpt2()
    strategy, engine = get_strategy(strategy_name), apply(strategy_name, workload)
    whole: dict[str, list[str]] = {}

    def mark(phase: str) -> None:
        whole[phase] = [name for name, p in engine.module.named_parameters() if p.numel() == p.ds_numel]

    batch, optimizer = workload.batch(rank_generator(SEED, current().rank)), strategy.optimizer(engine, workload)
    for _ in range(2):  # in the first, DeepSpeed takes down the order of parameters, and releases all
        strategy.step(engine, workload, batch, optimizer, "fp32", mark)
    mark("step")
    return whole


def test_parameters_are_resharded_after_their_use(ranks: Ranks) -> None:
    """zero3 leaves no parameter whole behind forward, behind backward, or between steps."""
    for rank, found in enumerate(ranks(2).run(gathered, "zero3")):
        assert found == {"forward": [], "backward": [], "optimizer": [], "step": []}, (
            f"zero3, rank {rank} of 2: parameters left whole when each phase ended: {found}; none expected. "
            "DeepSpeed keeps gathered what it was told to release (stage3_max_reuse_distance, persistence threshold)."
        )


def test_deepspeeds_defaults_keep_small_parameters_whole(ranks: Ranks) -> None:
    """The control: left to its defaults, DeepSpeed keeps every parameter of so small a model whole at all times."""
    names = [name for name, _ in uneven_gpt2().model().named_parameters()]
    for found in ranks(2).run(gathered, "zero3-defaults"):
        assert found == dict.fromkeys(("forward", "backward", "optimizer", "step"), names)


def listening_addresses() -> list[str]:
    """On a rank: build an engine, then list the addresses on which this rank accepts TCP connections."""
    apply("zero3", uneven_gpt2())
    return rank_jobs.listening_addresses()


def test_deepspeed_listens_on_loopback_only(ranks: Ranks) -> None:
    """An engine opens nothing to the network: it uses the process group that was open before."""
    addresses = {address for found in ranks(2).run(listening_addresses) for address in found}
    assert addresses
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_deepspeed_leaves_torch_as_it_was(ranks: Ranks) -> None:
    """After an engine was built in a process, ``torch.nn.functional.linear`` is torch's: others run there too."""
    assert ranks(2).run(linear_is_torchs) == [True, True]


def linear_is_torchs() -> bool:
    """On a rank: build an engine, then look."""
    apply("zero3", uneven_gpt2())
    return torch.nn.functional.linear is linear
