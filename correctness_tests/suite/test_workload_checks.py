"""A workload that cannot be trained is found out before ranks are started, by one error that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from fixtures import workload_checks
from fixtures.errors import UsageError
from fixtures.models import MLP
from fixtures.workload_checks import check_workload
from fixtures.workloads import REGISTRY, Workload, mlp, resolve_workload

pytestmark = pytest.mark.cpu

GOOD = mlp("mine", layers=2, width=4, hidden=8, rows=2)


def small_mlp(change: Callable[[MLP], object] = lambda model: None) -> MLP:
    """The model of GOOD, changed."""
    model = MLP(2, 4, 8)
    change(model)
    return model


def with_model(change: Callable[[MLP], object]) -> Workload:
    """GOOD with its model changed after it is built."""
    return replace(GOOD, model=lambda: small_mlp(change))


def blocks(model: nn.Module) -> list[nn.Module]:
    """The blocks of GOOD's model."""
    return list(model.get_submodule("blocks").children())


def scalar_parameter(model: MLP) -> None:
    """Give the model a parameter without a dimension."""
    model.blocks[0].scale = nn.Parameter(torch.ones(()))


def tie_across_blocks(model: MLP) -> None:
    """Let two blocks share a weight."""
    shared = model.get_parameter("blocks.0.up.weight")
    model.get_submodule("blocks.1.up").register_parameter("weight", shared)


def freeze(model: MLP) -> None:
    """Leave nothing to train."""
    model.requires_grad_(False)


def detached_loss(model: nn.Module, batch: Tensor) -> Tensor:
    """A scalar without a graph."""
    loss: Tensor = model(batch[0]).mean()
    return loss.detach()


BAD = {
    "model raises": (
        replace(GOOD, model=lambda: small_mlp(lambda m: 1 // 0)),
        "building its model raised ZeroDivision",
    ),
    "not a module": (replace(GOOD, model=cast(Any, int)), "model function returned a int"),
    "no name": (replace(GOOD, name=""), "the workload's name is '': String should have at least 1 character.*Give it"),
    "name of None": (
        replace(GOOD, name=cast(Any, None)),
        "the workload's name is None: Input should be a valid string",
    ),
    "long name": (replace(GOOD, name="x" * 5000), r"name is 'x{79}\.\.\.: String should have at most 200 characters"),
    "name of two lines": (replace(GOOD, name="a\nb"), r"name is 'a\\nb': String should match.*printable characters"),
    "no tokens": (
        replace(GOOD, tokens_per_batch=0),
        "tokens_per_batch is 0: Input should be greater than or equal to 1",
    ),
    "countless tokens": (replace(GOOD, tokens_per_batch=10**30), "tokens_per_batch is 10+: .* 1000000000000000.*rows"),
    "no blocks": (replace(GOOD, blocks=lambda m: []), "no blocks to shard.*repeated layers"),
    "blocks raise": (
        replace(GOOD, blocks=lambda m: blocks(m.get_submodule("layers"))),
        "its blocks function raised AttributeError",
    ),
    "foreign block": (replace(GOOD, blocks=lambda m: [nn.Linear(1, 1)]), r"block 0 \(a Linear\) is not a submodule"),
    "root listed": (replace(GOOD, blocks=lambda m: [*blocks(m), m]), "lists the model itself"),
    "block twice": (replace(GOOD, blocks=lambda m: blocks(m)[:1] * 2), r"lists 'blocks\.0' twice"),
    "scalar": (with_model(scalar_parameter), r"parameter 'blocks\.0\.scale' has no dimension.*shape \(1,\)"),
    "tied": (with_model(tie_across_blocks), r"'blocks\.0\.up\.weight' of unit 'blocks\.0' is 'blocks\.1\.up\.weight'"),
    "bfloat16": (with_model(lambda m: m.bfloat16()), r"parameter '\S+' is torch\.bfloat16\. Build it in float32"),
    "frozen": (with_model(freeze), "no parameter to train"),
    "batch raises": (replace(GOOD, batch=lambda g: torch.ones(1) @ torch.ones(2)), "its batch function raised Runtime"),
    "batch of text": (replace(GOOD, batch=lambda g: "text"), "a batch holds a str"),
    "batch too wide": (replace(GOOD, batch=lambda g: torch.ones(2, 2, 5)), "The batch does not fit the model"),
    "loss is no scalar": (replace(GOOD, loss=lambda m, b: m(b[0])), r"its loss is a tensor of shape \(2, 4\)"),
    "loss is a float": (replace(GOOD, loss=lambda m, b: b.mean().item()), "its loss is a float"),
    "loss is detached": (replace(GOOD, loss=detached_loss), "without a gradient"),
    "unused": (with_model(lambda m: m.register_module("extra", nn.Linear(1, 1))), r"'extra\.weight' gets no gradient"),
}


@pytest.mark.parametrize(("workload", "message"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_trained_is_one_usage_error(workload: Workload, message: str) -> None:
    """Each way in which a workload can be wrong raises one UsageError that names the part and the remedy."""
    with pytest.raises(UsageError, match=message):
        check_workload(workload)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_suites_own_workloads_pass(name: str) -> None:
    """Every registered workload passes, GPT-2 Large too, on the meta device."""
    check_workload(resolve_workload(name))


def test_a_token_beyond_the_vocabulary_is_found() -> None:
    """A small workload takes its trial step for real, so that a wrong value shows and not only a wrong shape."""
    workload = replace(resolve_workload("gpt2-rehearsal"), batch=lambda g: torch.full((1, 33), 512))
    with pytest.raises(UsageError, match="its loss raised IndexError"):
        check_workload(workload)


def test_a_large_model_takes_its_trial_step_on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit a batch that does not fit is found without a weight in memory."""
    monkeypatch.setattr(workload_checks, "REAL_STEP_MAX_PARAMS", 0)
    monkeypatch.setattr(workload_checks, "build_on_cpu", None)
    with pytest.raises(UsageError, match="The batch does not fit the model"):
        check_workload(replace(GOOD, batch=lambda g: torch.ones(2, 2, 5)))


def test_a_large_model_that_reads_values_is_left_to_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that meta cannot run is no error of the user's, and no reason for a slow check."""
    monkeypatch.setattr(workload_checks, "REAL_STEP_MAX_PARAMS", 0)
    check_workload(replace(GOOD, loss=lambda m, b: m(b[0]).mean() * b.sum().item()))


def test_an_optimizer_of_other_parameters_is_refused() -> None:
    """An optimizer that ignores the parameters it is given would train nothing once they are sharded."""
    other = [torch.nn.Parameter(torch.ones(2))]
    workload = replace(resolve_workload("mlp"), optimizer=lambda parameters: torch.optim.SGD(other, lr=0.1))
    with pytest.raises(UsageError, match="does not hold the parameters that it was given"):
        check_workload(workload)
