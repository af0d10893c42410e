"""The worked example, Hugging Face's GPT-2 as a user's own workload, trains under every strategy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correctness_tests.gradients import check_differences
from correctness_tests.test_gradients_match_ddp import against_ddp
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.strategies import STRATEGIES, build_model, get_strategy, rank_generator
from fixtures.workload_checks import check_workload
from fixtures.workloads import Workload, describe, resolve_workload

pytestmark = pytest.mark.cpu

TINY = "examples.huggingface_gpt2:tiny"


@pytest.fixture(autouse=True)
def _needs_transformers() -> None:
    pytest.importorskip("transformers", reason="the example needs transformers: pip install -e .[hf]")


def tiny() -> Workload:
    """The example at its small size."""
    return resolve_workload(TINY)


def losses(strategy_name: str, steps: int) -> list[float]:
    """On a rank: train on one batch in mixed precision; the loss of each step."""
    workload, platform, rank = tiny(), current().platform, current().rank
    strategy = get_strategy(strategy_name)
    module = strategy.apply(build_model(workload, 1337), workload, platform.mesh(), platform.device(rank), "mixed")
    optimizer = workload.optimizer(module.parameters())
    batch = workload.batch(rank_generator(1337, rank))
    return [strategy.step(module, workload, batch, optimizer, "mixed").item() for _ in range(steps)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_trains(ranks: Callable[[int], RankPool], strategy: str) -> None:
    """Five steps on one batch lower the loss on both ranks."""
    for values in ranks(2).run(losses, strategy, 5):
        assert values[-1] < values[0]


def test_its_gradients_are_ddps(ranks: Callable[[int], RankPool]) -> None:
    """On two ranks FSDP2's gradients equal DDP's bit for bit, those of the weight shared by head and embedding too."""
    found = ranks(2).run(against_ddp, tiny, "fsdp2", 2)
    check_differences(
        found, "fsdp2 against ddp, the Hugging Face example", "0 expected.", "Are tied weights in one unit?"
    )


@pytest.mark.parametrize("name", ["tiny", "small"])
def test_it_passes_the_checks_of_a_users_workload(name: str) -> None:
    """Both sizes can be trained, as far as can be said without ranks."""
    check_workload(resolve_workload(f"examples.huggingface_gpt2:{name}"))


def test_its_tied_head_counts_once() -> None:
    """The small size has GPT-2's published 124,439,808 parameters: vocabulary 50257, the tied head counted once."""
    assert describe(resolve_workload("examples.huggingface_gpt2:small")).num_params == 124_439_808
