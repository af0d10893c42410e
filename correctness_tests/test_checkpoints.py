"""A checkpoint is addressed by logical tensor: saved on four ranks, it loads on any number and into a plain model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed.checkpoint.filesystem import FileSystemReader

from correctness_tests.checkpoints import (
    loaded,
    loaded_plain,
    make_optimizer,
    resumed,
    save_trained,
    uninterrupted,
    whole_state,
)
from correctness_tests.training import Pair, check_same, train_plain
from fixtures.ranks.pool import RankPool

pytestmark = pytest.mark.cpu

Ranks = Callable[[int], RankPool]
MEANING = "A checkpoint must give back every tensor whole, uneven rows and optimizer state included."


def saved_names(directory: Path) -> set[str]:
    """The names of the tensors in a checkpoint."""
    metadata = FileSystemReader(directory).read_metadata()
    return {name for name, kind in metadata.state_dict_metadata.items() if hasattr(kind, "size")}


def expected_names() -> set[str]:
    """The names that a plain model's checkpoint has: the model's own, and those of its optimizer's state."""
    plain = Pair()
    optimizer = make_optimizer(plain)
    train_plain(plain, optimizer, 1, 1)
    parameters = [name for name, _ in plain.named_parameters()]
    state = {f"optimizer.state.{n}.{key}" for n in parameters for key in ("exp_avg", "exp_avg_sq", "step")}
    return {f"model.{n}" for n in parameters} | state


def check_round_trip(ranks: Ranks, directory: Path, save_size: int, load_size: int) -> None:
    """Fail unless what is loaded on ``load_size`` ranks (0: a plain model) is what ``save_size`` ranks saved."""
    saved = ranks(save_size).run(save_trained, directory, 2)
    assert all(state.keys() == saved[0].keys() for state in saved)
    found = ranks(load_size).run(loaded, directory) if load_size else [loaded_plain(directory)]
    for rank, state in enumerate(found):
        check_same(state, saved[0], f"saved on {save_size}, loaded on {load_size or 'no'} ranks, rank {rank}", MEANING)
    plain = whole_state(Pair(), make_optimizer(Pair()))
    assert plain.keys() < saved[0].keys(), "the checkpoint has no optimizer state"


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # a plain load is meant
@pytest.mark.parametrize("load_size", [0, 1, 2, 8], ids=["plain", "1", "2", "8"])
def test_what_four_ranks_saved_loads_anywhere(ranks: Ranks, tmp_path: Path, load_size: int) -> None:
    """Parameters and optimizer state come back bit for bit; at 8 ranks some have no row of some (pytorch#150862)."""
    check_round_trip(ranks, tmp_path, 4, load_size)


def test_names_are_the_plain_models(ranks: Ranks, tmp_path: Path) -> None:
    """A checkpoint of a sharded model has the plain model's names, no prefix added, and those of its optimizer."""
    ranks(2).run(save_trained, tmp_path, 1)
    found, expected = saved_names(tmp_path), expected_names()
    assert found == expected, f"names only saved: {found - expected}; only expected: {expected - found}"


def test_training_goes_on_as_if_never_interrupted(ranks: Ranks, tmp_path: Path) -> None:
    """Two steps, a checkpoint, and two more in a new model equal four steps without one, bit for bit."""
    pool = ranks(2)
    pool.run(save_trained, tmp_path, 2)
    pairs = zip(pool.run(resumed, tmp_path, 2, 2), pool.run(uninterrupted, 4), strict=True)
    for rank, (found, expected) in enumerate(pairs):
        check_same(found, expected, f"rank {rank}, resumed after 2 of 4 steps", MEANING)
