"""Property: the events of the MLP are those of eager autograd, worked out on paper tensor by tensor.

The block is ``x + down(relu(up(x)))`` of C = 2 and F = 3 on B = 5 rows; a linear stem and head have 7 and 11 features.
In float32 up's output has 60 bytes, the stream 40, the batch 140, the prediction 220; in bfloat16 half of each.
A linear map saves its input and, where the input needs a gradient, its weight; relu saves its output. Backward computes
the input's gradient, then weight's and bias's; its node lets go of the output's gradient, then of what it saved.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fixtures import ledger
from fixtures.ledger import Activations, Casting, Event, Parameter, Work

pytestmark = pytest.mark.cpu

ENDS = (7, 11)

Told = tuple[str, str]
"""Forward and backward of a part: ``+`` what is taken, ``-`` what is freed, else what happens to a parameter."""

SHORT = {
    "input cast": "input",
    "activations": "saved",
    "residual stream": "stream",
    "activations in flight": "hidden",
    "prediction": "prediction",
    "loss": "loss",
    "gradients of activations": "flowing",
}

# The first block's input is the batch, which needs no gradient: what flows past the block is dropped in down's node.
FLOAT32_FIRST = (
    "+hidden 60, +saved 60, -hidden 60, +hidden 40, +stream 40, -hidden 40",
    "+flowing 60, gradient 2, gradient 3, -flowing 40, deliver 3, deliver 2, +flowing 60, -flowing 60, -saved 60, "
    "gradient 0, gradient 1, -flowing 60, deliver 1, deliver 0",
)
# up saved the stream that came in. The gradient past the block and the one through it are added into a third.
FLOAT32_BLOCK = (
    FLOAT32_FIRST[0],
    "+flowing 60, gradient 2, gradient 3, deliver 3, deliver 2, +flowing 60, -flowing 60, -saved 60, "
    "+flowing 40, gradient 0, gradient 1, -flowing 60, -stream 40, +flowing 40, -flowing 80, deliver 1, deliver 0",
)
# The whole module was cast: the same in bfloat16; up's input is the cast that came before the first gather.
POLICY_FIRST = (
    "+hidden 30, +saved 30, -hidden 30, +hidden 20, +stream 20, -hidden 20",
    "+flowing 30, gradient 2, gradient 3, -flowing 20, deliver 3, deliver 2, +flowing 30, -flowing 30, -saved 30, "
    "gradient 0, gradient 1, -flowing 30, -input 20, deliver 1, deliver 0",
)
POLICY_BLOCK = (
    POLICY_FIRST[0],
    "+flowing 30, gradient 2, gradient 3, deliver 3, deliver 2, +flowing 30, -flowing 30, -saved 30, "
    "+flowing 20, gradient 0, gradient 1, -flowing 30, -stream 20, +flowing 20, -flowing 40, deliver 1, deliver 0",
)
# Autocast: bias, then weight are copied, the weight's copy kept only for the gradient of an input. The sum of a float32
# batch and a bfloat16 output is float32: up saves a copy of the stream, and the addition's backward casts for down.
AUTOCAST_FIRST = (
    "cast 1, cast 0, +saved 20, +hidden 30, +saved 30, -hidden 30, "
    "cast 3, cast 2 saved, +hidden 20, +stream 40, -hidden 20",
    "+flowing 20, -flowing 40, +flowing 30, gradient 2, gradient 3, -flowing 20, uncast 2, deliver 2, deliver 3, "
    "+flowing 30, -flowing 30, -saved 30, gradient 0, gradient 1, -flowing 30, -saved 20, deliver 0, deliver 1",
)
# Nothing saved the stream that came in, so it goes once the sum is made; the gradient of its copy is cast to float32.
AUTOCAST_BLOCK = (
    "cast 1, cast 0 saved, +saved 20, +hidden 30, +saved 30, -hidden 30, "
    "cast 3, cast 2 saved, +hidden 20, +stream 40, -hidden 20, -stream 40",
    "+flowing 20, +flowing 30, gradient 2, gradient 3, -flowing 20, uncast 2, deliver 2, deliver 3, "
    "+flowing 30, -flowing 30, -saved 30, +flowing 20, gradient 0, gradient 1, -flowing 30, -saved 20, uncast 0, "
    "+flowing 40, -flowing 20, +flowing 40, -flowing 80, deliver 0, deliver 1",
)
# Behind a stem the stream is bfloat16: no copies of it.
AUTOCAST_INNER = (
    "cast 1, cast 0 saved, +hidden 30, +saved 30, -hidden 30, cast 3, cast 2 saved, +hidden 20, +stream 20, -hidden 20",
    "+flowing 30, gradient 2, gradient 3, uncast 2, deliver 2, deliver 3, +flowing 30, -flowing 30, -saved 30, "
    "+flowing 20, gradient 0, gradient 1, -flowing 30, -stream 20, uncast 0, "
    "+flowing 20, -flowing 40, deliver 0, deliver 1",
)

BLOCKS: dict[tuple[Casting, bool], tuple[Told, Told]] = {
    ("none", False): (FLOAT32_FIRST, FLOAT32_BLOCK),
    ("none", True): (FLOAT32_BLOCK, FLOAT32_BLOCK),
    ("policy", False): (POLICY_FIRST, POLICY_BLOCK),
    ("policy", True): (POLICY_BLOCK, POLICY_BLOCK),
    ("autocast", False): (AUTOCAST_FIRST, AUTOCAST_BLOCK),
    ("autocast", True): (AUTOCAST_INNER, AUTOCAST_INNER),
}

STEMS: dict[Casting, Told] = {
    "none": ("+stream 40", "gradient 0, gradient 1, -flowing 40, deliver 1, deliver 0"),
    "policy": ("+stream 20", "gradient 0, gradient 1, -flowing 20, -input 70, deliver 1, deliver 0"),
    "autocast": (
        "cast 1, cast 0, +input 70, +stream 20",
        "gradient 0, gradient 1, -flowing 20, -input 70, deliver 0, deliver 1",
    ),
}

HEADS: dict[Casting, Told] = {
    "none": (
        "+prediction 220",
        "+flowing 40, gradient 2, gradient 3, -flowing 220, -stream 40, deliver 3, deliver 2",
    ),
    "policy": (
        "+prediction 110",
        "+flowing 20, gradient 2, gradient 3, -flowing 110, -stream 20, deliver 3, deliver 2",
    ),
    "autocast": (
        "cast 3, cast 2 saved, +prediction 110",
        "+flowing 20, gradient 2, gradient 3, -flowing 110, -stream 20, uncast 2, deliver 2, deliver 3",
    ),
}

# The loss has the buffer of its terms; float() of a bfloat16 prediction makes another, and its backward a gradient.
LOSSES: dict[tuple[Casting, bool], Told] = {
    ("none", False): ("+loss 40", "+flowing 40, -stream 40"),
    ("none", True): ("+loss 220", "+flowing 220, -prediction 220"),
    ("policy", False): (
        "+prediction 40, -stream 20, +loss 40",
        "+flowing 40, -prediction 40, +flowing 20, -flowing 40",
    ),
    ("policy", True): (
        "+prediction 220, -prediction 110, +loss 220",
        "+flowing 220, -prediction 220, +flowing 110, -flowing 220",
    ),
    ("autocast", False): ("+loss 40", "+flowing 40, -stream 40"),
    ("autocast", True): (
        "+prediction 220, -prediction 110, +loss 220",
        "+flowing 220, -prediction 220, +flowing 110, -flowing 220",
    ),
}

CASES = pytest.mark.parametrize(("casting", "ended"), BLOCKS)


def mlp(casting: Casting, ended: bool, layers: int = 3) -> Activations:
    """The events of the MLP on paper."""
    return ledger.mlp_activations(layers, 2, 3, 5, casting, ENDS if ended else None)


def told(events: Sequence[Event]) -> str:
    """Events in short."""
    saved = {0: "", 1: " saved"}
    return ", ".join(
        f"{ {'take': '+', 'free': '-'}[event.verb] }{SHORT[event.what]} {event.size}"
        if isinstance(event.what, str)
        else f"{event.verb} {event.what}{saved[event.size]}"
        for event in events
    )


def both(work: Work) -> Told:
    """Forward and backward of a part in short."""
    return told(work.forward), told(work.backward)


@CASES
def test_events_of_the_blocks(casting: Casting, ended: bool) -> None:
    """The first block and every other."""
    first, other = BLOCKS[casting, ended]
    assert [both(block) for block in mlp(casting, ended).blocks] == [first, other, other]


@CASES
def test_events_of_stem_and_head(casting: Casting, ended: bool) -> None:
    """Linear maps with the root's parameters, 0 and 1, 2 and 3; nothing where there are none."""
    model = mlp(casting, ended)
    assert both(model.stem) == (STEMS[casting] if ended else ("", ""))
    assert both(model.head) == (HEADS[casting] if ended else ("", ""))


@CASES
def test_events_of_the_loss(casting: Casting, ended: bool) -> None:
    """Mean squared error in float32."""
    assert both(mlp(casting, ended).loss) == LOSSES[casting, ended]


@CASES
def test_batch_and_what_comes_before_any_gather(casting: Casting, ended: bool) -> None:
    """Inputs and targets in float32; a policy casts the inputs first."""
    model = mlp(casting, ended)
    assert model.batch == (4 * 5 * (7 + 11) if ended else 4 * 5 * 2 * 2)
    assert told(model.entry) == (f"+input {70 if ended else 20}" if casting == "policy" else "")


@pytest.mark.parametrize(
    ("strategy", "mixed"),
    [("single", "autocast"), ("ddp", "autocast"), ("fsdp1", "policy"), ("fsdp2", "policy")],
)
def test_where_bfloat16_comes_from(strategy: str, mixed: Casting) -> None:
    """Autocast for whole parameters, a policy for sharded ones, from nowhere in float32."""
    assert ledger.casting_of(strategy, "mixed") == mixed
    assert ledger.casting_of(strategy, "fp32") == "none"


def test_gradients_become_ready_from_the_head_to_the_stem() -> None:
    """Biases first, the last block before the first, each parameter once."""
    blocks = [[(3, 2), (3,), (2, 3), (2,)], [(13, 2), (13,), (2, 13), (12,)]]
    root = [(2, 7), (22,), (11, 2), (11,)]
    order = [(11,), (11, 2), (12,), (2, 13), (13,), (13, 2), (2,), (2, 3), (3,), (3, 2), (22,), (2, 7)]
    assert ledger.ready_order(mlp("none", True, layers=2), blocks, root) == [Parameter(shape) for shape in order]


@pytest.mark.parametrize("layers", [0, 2])
def test_blocks_and_their_parameters_come_in_pairs(layers: int) -> None:
    """A model with blocks for which there are no parameters, or the other way round, has no order."""
    with pytest.raises(ValueError, match=r"zip\(\)"):
        ledger.ready_order(mlp("none", False, layers), [[(3, 2), (3,), (2, 3), (2,)]], [])


def test_events_of_a_part_known_by_three_figures() -> None:
    """Saved to the end of its backward; at most 5 more in forward and 11 in backward, beside all gradients."""
    assert both(ledger.rough_work(saved=7, forward_peak=5, backward_peak=11, parameters=2)) == (
        "+saved 7, +hidden 5, -hidden 5",
        "gradient 0, gradient 1, +flowing 11, -flowing 11, -saved 7, deliver 1, deliver 0",
    )
