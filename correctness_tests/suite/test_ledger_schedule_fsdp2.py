"""Property: FSDP2's step takes and frees what ``_fully_shard`` does, worked out on paper.

Two ranks, each parameter padded to 2 shards of whole rows. Block 0 has 2 rows of 3 and 2 of 1, block 1 and the root 3
and 5 rows of 1: 8, 4 and 6 elements gathered, half of them this rank's.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from correctness_tests.suite.step_diary import diary_of
from fixtures.errors import UsageError
from fixtures.ledger import Precision, Unit, Work
from fixtures.ledger.alone import strategy_alone
from fixtures.ledger.schedule_fsdp2 import PerParameter
from fixtures.ledger.schedules import Arm

pytestmark = pytest.mark.cpu

BLOCKS: list[Unit] = [[(2, 3), (2,)], [(3,)]]
ROOT: Unit = [(5,)]

OUT, WHOLE, GRADIENTS = "all-gather outputs", "gathered units", "parameter gradients"
READ, SHARDS = "reduce-scatter inputs", "gradient shards"


def diary(
    strategy: str,
    precision: Precision,
    root: Unit = ROOT,
    blocks: list[Unit] | None = None,
    ranks: int = 2,
    rank: int = 0,
    stem: bool = True,
) -> list[str]:
    """A step of the strategy alone; without a stem the first block's input needs no gradient."""
    given = BLOCKS if blocks is None else blocks
    model = strategy_alone(given, root)
    model = model if stem else replace(model, stem=Work())
    return diary_of(PerParameter(Arm(strategy, given, root, ranks, rank, precision, model)))


def issued(size: int) -> str:
    """A gather in bfloat16: this rank's half is cast first."""
    return f"+cast shards {size // 2}, +{OUT} {size}, -cast shards {size // 2}"


def adamw(elements: int) -> str:
    """A counter, then the second moment of this rank's elements."""
    name = "AdamW foreach temporaries"
    return f"AdamW: +{name} 4, -{name} 4, +{name} {4 * elements}, -{name} {4 * elements}"


FORWARD = [
    f"gather of the root: {issued(12)}, +{WHOLE} 12",
    f"gather of block 0: {issued(16)}, +{WHOLE} 16, -{OUT} 12",
    f"forward of block 0: -{WHOLE} 16",
    f"gather of block 1: {issued(8)}, +{WHOLE} 8, -{OUT} 16",
    f"forward of block 1: -{WHOLE} 8",
    f"head and loss: -{OUT} 8",
    "backward of the loss: +gradient of the loss 4",
]
"""Each gather's output is kept until the next was copied out."""

BACKWARD = [
    f"backward of the head: {issued(8)}, +{GRADIENTS} 10",
    f"gather for the backward of block 1: +{WHOLE} 8, -{OUT} 8, {issued(16)}",
    f"backward of block 1: +{GRADIENTS} 6",
    f"reduce of block 1: -{WHOLE} 8, +{READ} 16, +{SHARDS} 8, -{GRADIENTS} 6",
    f"gather for the backward of block 0: +{WHOLE} 16, -{OUT} 16",
    f"backward of block 0: +{GRADIENTS} 12, +{GRADIENTS} 4",
]
"""One block ahead is gathered; a reduction reads float32, and its last gradient outlives the others."""

REDUCED = f"+{READ} 32, -{GRADIENTS} 12, +{SHARDS} 16, -{GRADIENTS} 4"
"""Block 0."""


def test_a_step_in_mixed_precision() -> None:
    """Each reduction's input is kept until the next unit reduces; the root, whole all along, is reduced last."""
    assert diary("fsdp2", "mixed") == [
        *FORWARD,
        *BACKWARD,
        f"reduce of block 0: -{WHOLE} 16, -{READ} 16, {REDUCED}",
        f"end of backward: -{WHOLE} 12, -{READ} 32, +{READ} 24, +{SHARDS} 12, -{GRADIENTS} 10, -{READ} 24, "
        "-gradient of the loss 4",
        f"{adamw(4 + 2 + 3)}, -{SHARDS} 36",
    ]


def test_a_first_block_whose_input_needs_no_gradient_is_reduced_after_the_root() -> None:
    """Its backward hook hangs on the input's gradient, so that the final callback does it."""
    assert diary("fsdp2", "mixed", stem=False) == [
        *FORWARD,
        *BACKWARD,
        f"end of backward: -{WHOLE} 12, -{READ} 16, +{READ} 24, +{SHARDS} 12, -{GRADIENTS} 10, "
        f"-{WHOLE} 16, -{READ} 24, {REDUCED}, -{READ} 32, -gradient of the loss 4",
        f"{adamw(9)}, -{SHARDS} 36",
    ]


def test_a_step_without_reshard() -> None:
    """Blocks stay whole to their reduction: backward gathers none."""
    assert diary("fsdp2-noreshard", "mixed") == [
        FORWARD[0],
        FORWARD[1],
        FORWARD[3],
        *FORWARD[5:],
        f"backward of the head: +{GRADIENTS} 10",
        *BACKWARD[2:4],
        BACKWARD[5],
        f"reduce of block 0: -{WHOLE} 16, -{READ} 16, {REDUCED}",
        f"end of backward: -{WHOLE} 12, -{READ} 32, +{READ} 24, +{SHARDS} 12, -{GRADIENTS} 10, -{READ} 24, "
        "-gradient of the loss 4",
        f"{adamw(9)}, -{SHARDS} 36",
    ]


def test_a_step_in_float32() -> None:
    """Nothing is cast, on rank 1, which has 4, 1 and 2 elements."""
    assert diary("fsdp2", "fp32", rank=1) == [
        f"gather of the root: +{OUT} 24, +{WHOLE} 24",
        f"gather of block 0: +{OUT} 32, +{WHOLE} 32, -{OUT} 24",
        f"forward of block 0: -{WHOLE} 32",
        f"gather of block 1: +{OUT} 16, +{WHOLE} 16, -{OUT} 32",
        f"forward of block 1: -{WHOLE} 16",
        f"head and loss: -{OUT} 16",
        "backward of the loss: +gradient of the loss 4",
        f"backward of the head: +{OUT} 16, +{GRADIENTS} 20",
        f"gather for the backward of block 1: +{WHOLE} 16, -{OUT} 16, +{OUT} 32",
        f"backward of block 1: +{GRADIENTS} 12",
        f"reduce of block 1: -{WHOLE} 16, +{READ} 16, +{SHARDS} 8, -{GRADIENTS} 12",
        f"gather for the backward of block 0: +{WHOLE} 32, -{OUT} 32",
        f"backward of block 0: +{GRADIENTS} 24, +{GRADIENTS} 8",
        f"reduce of block 0: -{WHOLE} 32, -{READ} 16, +{READ} 32, -{GRADIENTS} 24, +{SHARDS} 16, -{GRADIENTS} 8",
        f"end of backward: -{WHOLE} 24, -{READ} 32, +{READ} 24, +{SHARDS} 12, -{GRADIENTS} 20, -{READ} 24, "
        "-gradient of the loss 4",
        f"{adamw(4 + 1 + 2)}, -{SHARDS} 36",
    ]


def test_a_root_without_parameters_prefetches_nothing() -> None:
    """It gathers neither itself nor a block: the last block is gathered when its backward comes."""
    lines = diary("fsdp2", "mixed", root=[])
    assert not [line for line in lines if "root" in line or "of the head" in line]
    assert f"gather for the backward of block 1: {issued(8)}, +{WHOLE} 8, -{OUT} 8, {issued(16)}" in lines
    assert f"end of backward: -{READ} 32, -gradient of the loss 4" in lines


def test_a_block_without_parameters_is_neither_gathered_nor_reduced() -> None:
    """A hook of a unit that is not there does nothing; the block before it is gathered when its backward comes."""
    lines = diary("fsdp2", "mixed", blocks=[[(3,)], []])
    assert not [line for line in lines if "block 1" in line]
    assert f"gather for the backward of block 0: {issued(8)}, +{WHOLE} 8, -{OUT} 8" in lines


def test_a_rank_without_rows_still_counts_its_step() -> None:
    """Of 2 rows on 3 ranks the last has none: AdamW has the counter, and a root of nothing."""
    lines = diary("fsdp2", "mixed", root=[(2,)], blocks=[], ranks=3, rank=2)
    assert lines[-1].startswith("AdamW: +AdamW foreach temporaries 4, -AdamW foreach temporaries 4, -gradient shards")


def test_one_rank_is_refused() -> None:
    """Nothing is gathered on one."""
    with pytest.raises(UsageError, match="on one rank fully_shard gathers nothing"):
        diary("fsdp2", "mixed", ranks=1)
