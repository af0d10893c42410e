"""Property: FSDP1's step takes and frees what ``_runtime_utils`` and ``_flat_param`` do, worked out on paper.

Two ranks. Block 0 has 6 and 2 elements, block 1 and the root 3 and 5. Mixed, each parameter begins at a multiple of 8
elements, in float32 of 4: block 0 ends at 10, and its flat parameter is 10 long; block 1's is 4, the root's 6.
"""

from __future__ import annotations

import pytest

from correctness_tests.suite.step_diary import diary_of
from fixtures.errors import UsageError
from fixtures.ledger import Precision, Unit
from fixtures.ledger.alone import strategy_alone
from fixtures.ledger.schedule_fsdp1 import Flat
from fixtures.ledger.schedules import Arm

pytestmark = pytest.mark.cpu

BLOCKS: list[Unit] = [[(2, 3), (2,)], [(3,)]]
ROOT: Unit = [(5,)]

TEMPORARIES = "AdamW foreach temporaries"


def diary(
    root: Unit, precision: Precision, rank: int = 0, blocks: list[Unit] | None = None, ranks: int = 2
) -> list[str]:
    """A step of the strategy alone."""
    given = BLOCKS if blocks is None else blocks
    return diary_of(Flat(Arm("fsdp1", given, root, ranks, rank, precision, strategy_alone(given, root))))


def gathered(size: int) -> str:
    """In bfloat16: half of it is cast, gathered straight into the flat parameter, and freed."""
    return f"+cast shards {size // 2}, +gathered units {size}, -cast shards {size // 2}"


def reduced(pads: int, flat: int) -> str:
    """Zeros and gradients are joined; the flat gradient is cast to float32, whose half is this rank's."""
    return (
        f"+zeros between gradients {pads}, +flat gradients {flat}, -zeros between gradients {pads}, "
        f"-parameter gradients {flat - pads}, -gathered units {flat}, +reduce-scatter inputs {2 * flat}, "
        f"+gradients {flat}, -reduce-scatter inputs {2 * flat}, -flat gradients {flat}"
    )


def test_a_step_in_mixed_precision() -> None:
    """Last step's gradients go first. Backward gathers one block ahead, and reduces the root, whole all along, last."""
    assert diary(ROOT, "mixed") == [
        "start: -gradients 40",
        f"gather of the root: {gathered(12)}",
        f"gather of block 0: {gathered(20)}",
        "forward of block 0: -gathered units 20",
        f"gather of block 1: {gathered(8)}",
        "forward of block 1: -gathered units 8",
        "backward of the loss: +gradient of the loss 4",
        f"backward of the head: {gathered(8)}, +parameter gradients 10",
        f"gather for the backward of block 1: {gathered(20)}",
        "backward of block 1: +parameter gradients 6",
        f"reduce of block 1: {reduced(2, 8)}",
        "backward of block 0: +parameter gradients 12, +parameter gradients 4",
        f"reduce of block 0: {reduced(4, 20)}",
        f"end of backward: {reduced(2, 12)}, -gradient of the loss 4",
        f"AdamW: +{TEMPORARIES} 4, -{TEMPORARIES} 4, +{TEMPORARIES} 40, -{TEMPORARIES} 40",
    ]


def whole(pads: int, flat: int) -> str:
    """In float32 the flat gradient is what the reduction reads."""
    return (
        f"+zeros between gradients {pads}, +flat gradients {flat}, -zeros between gradients {pads}, "
        f"-parameter gradients {flat - pads}, -gathered units {flat}, +gradients {flat // 2}, -flat gradients {flat}"
    )


def test_a_step_in_float32() -> None:
    """Nothing is cast; rank 1 has 3 elements of block 0 in its run from 5 to 10, one of block 1 and two of the root."""
    assert diary(ROOT, "fp32", rank=1) == [
        "start: -gradients 40",
        "gather of the root: +gathered units 24",
        "gather of block 0: +gathered units 40",
        "forward of block 0: -gathered units 40",
        "gather of block 1: +gathered units 16",
        "forward of block 1: -gathered units 16",
        "backward of the loss: +gradient of the loss 4",
        "backward of the head: +gathered units 16, +parameter gradients 20",
        "gather for the backward of block 1: +gathered units 40",
        "backward of block 1: +parameter gradients 12",
        f"reduce of block 1: {whole(4, 16)}",
        "backward of block 0: +parameter gradients 24, +parameter gradients 8",
        f"reduce of block 0: {whole(8, 40)}",
        f"end of backward: {whole(4, 24)}, -gradient of the loss 4",
        f"AdamW: +{TEMPORARIES} 4, -{TEMPORARIES} 4, +{TEMPORARIES} 24, -{TEMPORARIES} 24",
    ]


def test_a_root_without_parameters_prefetches_nothing() -> None:
    """Its hook gathers neither itself nor a block: the last block is gathered when its backward comes."""
    lines = diary([], "mixed")
    assert not [line for line in lines if "root" in line or "head" in line]
    assert f"gather for the backward of block 1: {gathered(8)}, {gathered(20)}" in lines
    assert "end of backward: -gradient of the loss 4" in lines


def test_a_block_without_parameters_is_neither_gathered_nor_reduced() -> None:
    """A hook of a unit that is not there does nothing; the block before it is gathered when its backward comes."""
    lines = diary(ROOT, "mixed", blocks=[[(3,)], []])
    assert not [line for line in lines if "block 1" in line]
    assert f"gather for the backward of block 0: {gathered(8)}" in lines


@pytest.mark.parametrize(("rank", "stepped"), [(0, True), (1, True), (2, False)])
def test_a_rank_without_elements_steps_nothing(rank: int, stepped: bool) -> None:
    """Of 2 elements on 3 ranks the last has none, hence no state and no temporary of AdamW's."""
    times = f"+{TEMPORARIES} 4, -{TEMPORARIES} 4"
    lines = diary([(2,)], "fp32", rank, [], ranks=3)
    assert [line for line in lines if "AdamW" in line] == ([f"AdamW: {times}, {times}"] if stepped else [])


@pytest.mark.parametrize(
    ("precision", "shard", "own"),
    [("mixed", 7, 3), ("fp32", 5, 4)],  # the second parameter begins at 8 and at 4, and ends at 13 and at 9
)
def test_alignment_shifts_what_a_rank_reduces_and_steps(precision: Precision, shard: int, own: int) -> None:
    """Of parameters of 3 and 5 elements rank 0 of 2 has the first alone, or one element of the second with it."""
    lines = diary([], precision, blocks=[[(3,), (5,)]])
    assert f", +gradients {4 * shard}, " in lines[-3]
    assert lines[-1].endswith(f", -{TEMPORARIES} {4 * own}")


def test_one_rank_is_refused() -> None:
    """FSDP1 does not shard on one."""
    with pytest.raises(UsageError, match="FSDP1 does not shard on one rank"):
        diary(ROOT, "mixed", ranks=1)
