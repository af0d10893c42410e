"""Property: the recorded computation of a step is the units' own, with all of its FLOPs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fixtures.measurements import Settings
from fixtures.meters.timeline import TimelineMeter
from fixtures.models import GPTConfig
from fixtures.platforms import playing_rank
from fixtures.recording import record_events
from fixtures.timelines import Event
from fixtures.torch_internals import wait_for_functional
from fixtures.training import Arm, Trainer
from fixtures.workloads import Workload, gpt2

pytestmark = pytest.mark.cpu

BATCH, CONTEXT, WIDTH = 2, 16, 12
GPT = f"{__name__}:small_gpt"


def small_gpt() -> Workload:
    """Two blocks and a root."""
    return gpt2("small-gpt", GPTConfig(layers=2, heads=2, width=WIDTH, vocab=50, context=CONTEXT), BATCH)


def recorded(strategy: str) -> tuple[Event, ...]:
    """A steady step of rank 0 of 2."""
    with playing_rank(0, 2) as platform:
        return record_events(strategy, GPT, platform)


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp2"])
def test_a_blocks_forward_is_its_matrix_products(strategy: str) -> None:
    """By hand, of T tokens: 24 T w^2 of the four linear layers, and 4 B s^2 w of attention, on whatever kernel."""
    by_hand = 24 * BATCH * CONTEXT * WIDTH**2 + 4 * BATCH * CONTEXT**2 * WIDTH
    pieces = [e for e in recorded(strategy) if (e.kind, e.unit) == ("forward", "block 0")]
    assert sum(piece.flops for piece in pieces) == by_hand


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp1", "fsdp2"])
def test_every_computation_is_a_units(strategy: str) -> None:
    """What a strategy or this meter does between the units is nobody's, and told as nothing."""
    computed = {event.unit for event in recorded(strategy) if event.kind in ("forward", "backward")}
    assert computed == {"root", "block 0", "block 1"}


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_reductions_are_told_though_gradients_go_before_the_step(strategy: str) -> None:
    """Whose gradients a reduction worked on is read after backward: a loop that drops them later loses no name."""
    with playing_rank(0, 2) as platform:
        trainer = Trainer(Arm(GPT, strategy, Settings()), platform)
        meter = TimelineMeter(trainer.module, trainer.workload)

        def mark(phase: str) -> None:
            meter.mark(phase)
            if phase == "backward":
                trainer.optimizer.zero_grad()

        with meter.recording():
            trainer.step(mark)
    units = {event.unit for event in meter.steps[0] if event.kind in ("reduce-scatter", "all-reduce")}
    assert set(" + ".join(units).split(" + ")) == {"root", "block 0", "block 1"}


class Waiting(nn.Module):
    """A module that only waits, as tensor parallelism does for what it has gathered."""

    def forward(self, x: Tensor) -> Tensor:
        """As it came, of any shape."""
        return wait_for_functional(x)


def test_waiting_for_a_collective_is_no_computation() -> None:
    """Of operators outside of torch's own, such as a wait of tensor parallelism's, none is a unit's work."""
    model, x = nn.Sequential(Waiting()), torch.ones(2)
    meter = TimelineMeter(model, replace(small_gpt(), blocks=lambda module: list(module.children())))
    with meter.recording():
        model(x)
    assert meter.steps == [()]
