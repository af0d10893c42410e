"""Property: a strategy alone holds its own buffers and no activations, on the rank with the most to hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fixtures.ledger import Event, Precision, Unit
from fixtures.ledger.alone import largest_moments, strategy_alone

pytestmark = pytest.mark.cpu

UNIT: Unit = [(3,), (5,)]
"""FSDP1 aligns to 16 bytes: of two ranks the second has more if mixed, the first in float32."""


def happened(events: Sequence[Event]) -> list[Event]:
    """Events of parameters, and of buffers with bytes."""
    return [event for event in events if isinstance(event.what, int) or event.size]


def test_a_model_of_nothing_but_gradients() -> None:
    """Each part's at once, the root's in the head, whose backward comes first; no batch, and a stem without any."""
    model = strategy_alone([[(2,)], [(3,), (3,)]], [(5,)] * 3)
    parts = [*model.blocks, model.head, model.stem]
    assert [happened(part.forward) for part in parts] == [[]] * 4
    assert [happened(part.backward) for part in parts] == [
        [
            *(Event("gradient", index) for index in range(count)),
            *(Event("deliver", index) for index in reversed(range(count))),
        ]
        for count in (1, 2, 3, 0)
    ]
    assert (model.batch, model.entry, model.loss.forward, model.loss.backward) == (0, (), (), ())


def test_a_stem_makes_the_first_blocks_input_need_a_gradient() -> None:
    """Its backward has events, of no bytes: FSDP2 reduces the first block at once, as in any model with embeddings."""
    assert strategy_alone([UNIT], []).stem.backward


@pytest.mark.parametrize(
    ("precision", "own", "padding", "steps"),
    [
        ("mixed", 5, 2, 4),  # the second parameter is 8 to 13, rank 1's run 7 to 14
        ("fp32", 4, 1, 8),  # the second parameter is 4 to 9, rank 0's run 0 to 5
    ],
)
@pytest.mark.parametrize(("blocks", "root"), [([UNIT], []), ([], UNIT)])
def test_moments_are_of_the_largest_rank(
    blocks: list[Unit], root: Unit, precision: Precision, own: int, padding: int, steps: int
) -> None:
    """Whether a block's parameters or the root's make it the largest; with a step for each parameter on it."""
    assert largest_moments("fsdp1", blocks, root, 2, precision)["resident"].buffers == {
        "parameters": 4 * own,
        "padding": 4 * padding,
        "moments": 8 * own,
        "steps": steps,
        "gradients": 4 * (own + padding),
    }


def test_forward_holds_the_gathered_unit() -> None:
    """The flat parameter of 14 elements in bfloat16, and the shard that is cast for it; the blocks are resharded."""
    moments = largest_moments("fsdp1", [UNIT], [], 2)
    peak = moments["peak_forward"].buffers
    assert (peak["gathered units"], peak["cast shards"]) == (28, 14)
    assert set(moments["after_forward"].buffers) == {"parameters", "padding", "moments", "steps"}
