"""Property: a step plays the model's parts in order, and of replicated parameters books what autocast and DDP do."""

from __future__ import annotations

import pytest

from correctness_tests.suite.step_diary import diary_of
from fixtures.errors import UsageError
from fixtures.ledger import Activations, Event, Parameter, Precision, Unit, Work
from fixtures.ledger.schedule_fsdp1 import Flat
from fixtures.ledger.schedules import Arm, Replicated
from fixtures.ledger.shapes import parameters_of

pytestmark = pytest.mark.cpu

BLOCK: list[Unit] = [[(2, 3), (2,)]]
ROOT: Unit = [(5,)]
"""24 and 8 bytes, and 20; half of each in bfloat16."""

UNCAST = Activations(
    batch=7,
    blocks=(Work((), (Event("gradient", 0), Event("gradient", 1), Event("deliver", 1), Event("deliver", 0))),),
    head=Work((), (Event("gradient", 0), Event("deliver", 0))),
    loss=Work((Event("take", "loss", 3),)),
)
CAST = Activations(
    batch=7,
    blocks=(
        Work(
            (Event("cast", 1), Event("cast", 0, 1)),
            (Event("gradient", 0), Event("gradient", 1), Event("uncast", 0), Event("deliver", 0), Event("deliver", 1)),
        ),
    ),
    head=Work((Event("cast", 0, 1),), (Event("gradient", 0), Event("uncast", 0), Event("deliver", 0))),
    loss=Work((Event("take", "loss", 3),)),
)

COPIES, SHORT_COPIES, GRADIENTS = "autocast copies", "autocast copies until its end", "parameter gradients"
ADAMW = (
    "AdamW: +AdamW foreach temporaries 4, -AdamW foreach temporaries 4, "
    "+AdamW foreach temporaries 52, -AdamW foreach temporaries 52"
)
"""A counter, then the second moment of 13 elements."""


def arm(strategy: str, precision: Precision, activations: Activations) -> Arm:
    """Of one process or two."""
    return Arm(strategy, BLOCK, ROOT, 2, 0, precision, activations)


@pytest.mark.parametrize(
    ("strategy", "delivered", "at_the_end"),
    [("single", "", f", -{GRADIENTS} 52"), ("ddp", f", -{GRADIENTS} {{}}", "")],
)
def test_a_step_in_float32(strategy: str, delivered: str, at_the_end: str) -> None:
    """Gradients one by one; DDP's hook copies each into its bucket at once, else they stay until set to None."""
    assert diary_of(Replicated(arm(strategy, "fp32", UNCAST))) == [
        "head and loss: +loss 3",
        "backward of the loss: +gradient of the loss 4",
        f"backward of the head: +{GRADIENTS} 20" + delivered.format(20),
        f"backward of block 0: +{GRADIENTS} 24, +{GRADIENTS} 8" + delivered.format(8) + delivered.format(24),
        "end of backward: -gradient of the loss 4",
        f"{ADAMW}{at_the_end}, -loss 3",
    ]


@pytest.mark.parametrize(
    ("strategy", "delivered", "at_the_end"),
    [("single", "", f", -{GRADIENTS} 52"), ("ddp", f", -{GRADIENTS} {{}}", "")],
)
def test_a_step_under_autocast(strategy: str, delivered: str, at_the_end: str) -> None:
    """Copies in bfloat16: of a bias until autocast ends, of a weight until its backward; gradients become float32."""
    head = f"+{GRADIENTS} 20, -{GRADIENTS} 10" + delivered.format(20)
    weight = f"+{GRADIENTS} 24, -{GRADIENTS} 12" + delivered.format(24)
    bias = f"+{GRADIENTS} 8, -{GRADIENTS} 4" + delivered.format(8)
    assert diary_of(Replicated(arm(strategy, "mixed", CAST))) == [
        f"forward of block 0: +{SHORT_COPIES} 4, +{COPIES} 12",
        f"head and loss: +{COPIES} 10, +loss 3, -{SHORT_COPIES} 4",
        "backward of the loss: +gradient of the loss 4",
        f"backward of the head: +{GRADIENTS} 10, -{COPIES} 10, {head}",
        f"backward of block 0: +{GRADIENTS} 12, +{GRADIENTS} 4, -{COPIES} 12, {weight}, {bias}",
        "end of backward: -gradient of the loss 4",
        f"{ADAMW}{at_the_end}, -loss 3",
    ]


def part(name: str) -> Work:
    """One buffer that forward takes and backward frees, and a gradient of the unit's first parameter."""
    return Work((Event("take", name, 1), Event("cast", 0)), (Event("free", name, 1), Event("gradient", 0)))


def test_parts_are_played_in_order_with_their_unit() -> None:
    """Entry, stem, blocks, head and loss, and back; all but the blocks have the root's parameters (20 bytes)."""
    model = Activations(
        batch=0,
        entry=(Event("take", "entry", 1), Event("cast", 0)),
        stem=part("stem"),
        blocks=(part("first"), part("second")),
        head=part("head"),
        loss=part("loss"),
    )
    copies, gradients = SHORT_COPIES, GRADIENTS
    first, second = [(2,)], [(3,)]
    played = Replicated(Arm("single", [first, second], ROOT, 2, 0, "fp32", model))
    assert diary_of(played) == [
        f"start: +entry 1, +{copies} 20",
        f"gather of the root: +stem 1, +{copies} 20",
        f"forward of block 0: +first 1, +{copies} 8",
        f"forward of block 1: +second 1, +{copies} 12",
        f"head and loss: +head 1, +{copies} 20, +loss 1, +{copies} 20, -{copies} 100",
        f"backward of the loss: +gradient of the loss 4, -loss 1, +{gradients} 20",
        f"backward of the head: -head 1, +{gradients} 20",
        f"backward of block 1: -second 1, +{gradients} 12",
        f"backward of block 0: -first 1, +{gradients} 8",
        f"end of backward: -stem 1, +{gradients} 20, -gradient of the loss 4",
        "AdamW: +AdamW foreach temporaries 4, -AdamW foreach temporaries 4, "
        f"+AdamW foreach temporaries 40, -AdamW foreach temporaries 40, -{gradients} 80",
    ]


def test_every_moment_says_where_it_is() -> None:
    """The peak of forward, which ends without the copy of the bias; what is held between steps."""
    schedule = Replicated(arm("single", "mixed", CAST))
    schedule.step()
    resident = {"parameters": 52, "moments": 104, "steps": 12, "batch": 7}
    held = {"autocast copies": 22, "loss": 3}
    moments = schedule.books.moments
    assert (moments["peak_forward"].where, moments["peak_forward"].buffers) == (
        "head and loss",
        resident | held | {"autocast copies until its end": 4},
    )
    assert (moments["after_forward"].where, moments["after_forward"].buffers) == ("end of forward", resident | held)
    assert (moments["resident"].where, moments["resident"].buffers) == ("between steps", resident)
    phases = [f"{when}_{phase}" for phase in ("forward", "backward", "optimizer") for when in ("peak", "after")]
    assert list(moments) == [*phases, "resident"]


def test_what_is_resident_depends_on_the_precision() -> None:
    """FSDP1 aligns to the dtype that is computed in: rank 2 of 4 has 9 of 33 elements in float32, 7 of 37 in mixed."""
    unit: Unit = [(9, 3), (5,)]
    nothing = Activations(batch=0, blocks=(Work(),))
    held = [Flat(Arm("fsdp1", [unit], [], 4, 2, p, nothing)).books.now().buffers for p in ("fp32", "mixed")]
    assert held == [
        {"parameters": 36, "moments": 72, "steps": 4, "gradients": 36},
        {"parameters": 28, "padding": 12, "moments": 56, "steps": 4, "gradients": 40},
    ]


def test_an_arm_knows_the_parameters_of_a_unit() -> None:
    """Of a block by its number, of the root by -1."""
    asked = arm("single", "fp32", UNCAST)
    assert [asked.parameters(unit) for unit in (0, -1)] == [parameters_of(BLOCK[0]), parameters_of(ROOT)]


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (BLOCK * 2, "2 blocks of parameters, 1 of activations."),
        ([[Parameter((4,), "bfloat16")]], "the ledger knows the phases of float32 parameters only"),
    ],
)
def test_what_has_no_schedule_is_refused(blocks: list[Unit], words: str) -> None:
    """Parameters of a model that the activations are not of, and parameters that are not float32."""
    with pytest.raises(UsageError, match=words):
        Replicated(Arm("single", blocks, ROOT, 2, 0, "fp32", UNCAST))
