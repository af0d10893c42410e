"""However FSDP2 trains, its gradients are those of one process on all ranks' data, and DDP's, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correctness_tests.gradients import check_differences, differences
from correctness_tests.variants import VARIANTS, Truth, train_alone, train_replicated, train_sharded
from fixtures.ranks.pool import RankPool

pytestmark = pytest.mark.cpu

STEPS = 2
EXACT = 2**24
"""The whole numbers up to here are exact in float32, and so are their quotients by a power of two."""

AT_4 = ("plain", "reshard to 2", "frozen", "accumulation, last micro-batch synced")
AT_1 = ("plain", "accumulation, last micro-batch synced")
CASES = [
    *((2, name) for name, variant in VARIANTS.items() if not variant.replicas and name not in AT_4),
    *((4, name) for name, variant in VARIANTS.items() if variant.replicas or name in AT_4),
    *((1, name) for name in AT_1),
    (8, "hsdp"),
]
"""Four ranks where two are too few: for empty shards, a smaller mesh after forward, and HSDP's two dimensions."""

OF_DDP = [name for name, v in VARIANTS.items() if not v.replicas and v.divide_by is None and v.reshard is True]


def check(pool: RankPool, train: Callable[[str, int], object], name: str) -> None:
    """Fail unless every gradient of every step and rank is the one that one process finds, bit for bit."""
    truth: Truth = train_alone(name, pool.world_size, STEPS)
    found = [differences(gradients, truth.gradients) for gradients in pool.run(train, name, STEPS)]
    check_differences(
        found,
        f"{train.__name__} against one process in float64, {name}, {pool.platform.key}",
        "0 expected, since no sum is rounded.",
        "A constant factor is a wrong divisor; a part is a gradient that was not reduced, or a micro-batch left out. "
        "Next: the plain case of correctness_tests/test_gradients_of_variants.py.",
    )


@pytest.mark.parametrize(("world_size", "name"), CASES)
def test_sharded_gradients_are_those_of_one_process(
    ranks: Callable[[int], RankPool], world_size: int, name: str
) -> None:
    """In two steps FSDP2's gradients equal those of one process on the ranks' data taken together."""
    check(ranks(world_size), train_sharded, name)


@pytest.mark.parametrize("name", OF_DDP)
def test_replicated_gradients_are_those_of_one_process(ranks: Callable[[int], RankPool], name: str) -> None:
    """So do DDP's on two ranks: the two agree, and neither is only as wrong as the other."""
    check(ranks(2), train_replicated, name)


@pytest.mark.parametrize(("world_size", "name"), CASES)
def test_no_partial_sum_is_rounded(world_size: int, name: str) -> None:
    """The control: even with every sign dropped no gradient reaches 2**24, so exactness may be asked for."""
    assert 0 < train_alone(name, world_size, STEPS).largest_partial_sum < EXACT


@pytest.mark.parametrize("name", VARIANTS)
def test_every_step_has_gradients_of_its_own(name: str) -> None:
    """The control: a parameter's gradient is not all zero and changes from step to step, so a stale one shows."""
    steps = train_alone(name, 4, STEPS).gradients
    for parameter, first in steps[0].items():
        assert first.count_nonzero(), f"{name}: the gradient of {parameter} is 0 in step 0"
        assert not first.equal(steps[1][parameter]), f"{name}: {parameter} has the same gradient in steps 0 and 1"
