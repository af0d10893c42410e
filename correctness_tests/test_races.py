"""However slow a rank, a collective or an optimizer is, training computes the same bits: nothing is read unawaited."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from correctness_tests.delays import Delay, first_difference, train_delayed
from fixtures.ranks.pool import RankPool

pytestmark = pytest.mark.cpu

STEPS = 3
DELAYS = (
    Delay("rank 0 slow", 1, slow_rank=0),
    Delay("last rank slow", 2, slow_rank=1),
    Delay("first collective slow", 3, slow_collective=0),
    Delay("fourth collective slow", 4, slow_collective=3),
    Delay("random pauses", 5, random=True),
    Delay("random pauses", 6, random=True),
)


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "fsdp2-noreshard"])
def test_delays_change_no_bit(ranks: Callable[[int], RankPool], strategy: str, world_size: int) -> None:
    """Every gradient and parameter of three steps in float32 is the same, bit for bit, with and without delays."""
    pool = ranks(world_size)
    undisturbed = pool.run(train_delayed, strategy, None, STEPS)
    for delay in DELAYS if world_size == 2 else DELAYS[-1:]:
        found = first_difference(pool.run(train_delayed, strategy, delay, STEPS), undisturbed)
        assert not found, (
            f"{strategy} on {pool.platform.key} under {delay}: {found} from the same run without delays.\n"
            "Something reads the result of a collective, or memory that one still writes, before it has waited for it. "
            "The seed decides every pause: this run can be repeated. "
            "Next: what torch changed in the order of wait and read around its collectives."
        )
