"""Save and load the small model and its optimizer by logical tensor, sharded over any number of ranks or whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from correctness_tests.training import Pair, shard_pair, train_sharded, whole, whole_parameters
from fixtures.ranks.worker import current

STATE_KEYS = ("exp_avg", "exp_avg_sq", "step")
"""What AdamW keeps of each parameter."""

State = dict[str, Tensor]
"""Parameters, and each parameter's optimizer state as ``name.key``, all whole."""


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """AdamW, which has state in the parameter's shape and a scalar step, with one group."""
    return torch.optim.AdamW(model.parameters(), lr=2.0**-6)


def whole_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    """Everything that a checkpoint must keep, whole. A collective where the model is sharded."""
    state = whole_parameters(model)
    for name, parameter in model.named_parameters():
        kept = optimizer.state[parameter]
        state |= {f"{name}.{key}": whole(kept[key]) for key in STATE_KEYS if key in kept}
    return state


def built(world_size: int) -> tuple[Pair, torch.optim.Optimizer]:
    """The model, sharded over the rank's process group if there is one, and its optimizer."""
    model = shard_pair(Pair(), current().platform.mesh()) if world_size else Pair()
    return model, make_optimizer(model)


def save_trained(directory: Path, steps: int) -> State:
    """On a rank: train, save model and optimizer, and return what was saved."""
    model, optimizer = built(dist.get_world_size())
    train_sharded(model, optimizer, steps, current().rank)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=directory)
    return whole_state(model, optimizer)


def load_into(model: Pair, optimizer: torch.optim.Optimizer, directory: Path) -> None:
    """Load model and optimizer in place, whatever they are sharded over."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": model_state, "optimizer": optimizer_state}
    load(state, checkpoint_id=directory, no_dist=not dist.is_initialized())
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def forgotten(world_size: int) -> tuple[Pair, torch.optim.Optimizer]:
    """A model and optimizer whose parameters are all NaN: what is not loaded shows."""
    model, optimizer = built(world_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    return model, optimizer


def loaded(directory: Path) -> State:
    """On a rank: what a new model and optimizer hold after loading."""
    model, optimizer = forgotten(dist.get_world_size())
    load_into(model, optimizer, directory)
    return whole_state(model, optimizer)


def loaded_plain(directory: Path) -> State:
    """What a plain model and optimizer hold after loading, in a process without ranks."""
    model, optimizer = forgotten(0)
    load_into(model, optimizer, directory)
    return whole_state(model, optimizer)


def resumed(directory: Path, first: int, steps: int) -> State:
    """On a rank: load, then train on from step ``first``."""
    model, optimizer = forgotten(dist.get_world_size())
    load_into(model, optimizer, directory)
    train_sharded(model, optimizer, steps, current().rank, first)
    return whole_state(model, optimizer)


def uninterrupted(steps: int) -> State:
    """On a rank: the same training without a checkpoint."""
    model, optimizer = built(dist.get_world_size())
    train_sharded(model, optimizer, steps, current().rank)
    return whole_state(model, optimizer)


def failures_of_loading(directory: Path) -> str:
    """On a rank: the error that loading raises, or '' when it raises none.

    CheckpointException derives from BaseException: ``except Exception`` lets it through.
    """
    model, optimizer = forgotten(dist.get_world_size())
    try:
        load_into(model, optimizer, directory)
    except (Exception, CheckpointException) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def shard_files(directory: Path) -> Sequence[Path]:
    """The files with the tensors' data, largest first."""
    return sorted(directory.glob("*.distcp"), key=lambda path: path.stat().st_size, reverse=True)
