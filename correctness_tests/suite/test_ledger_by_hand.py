"""Small models whose every buffer and message was worked out on paper."""

from __future__ import annotations

import pytest

from fixtures import ledger
from fixtures.errors import UsageError
from fixtures.ledger.collectives import comparable
from fixtures.measurements import CollectiveTally

pytestmark = pytest.mark.cpu

UNIT = [(9, 3), (5,)]
"""32 elements. Of 4 ranks each holds 3 rows of 3, the last none; and 2, 2, 1 and 0 elements."""

BF16 = [ledger.Parameter((4, 2), "bfloat16")]


def tally(kind: str, dtype: str, count: int, size: int) -> CollectiveTally:
    """One line of a ledger of messages."""
    return CollectiveTally(kind=kind, dtype=dtype, count=count, bytes=size)


def test_a_replica_holds_all_of_it() -> None:
    """128 bytes of parameters, twice that of moments, a step a parameter; DDP's buckets hold the gradients too."""
    single = {"parameters": 128, "moments": 256, "steps": 8}
    assert ledger.resident_buffers("single", [UNIT], 4, 0) == single
    assert ledger.resident_buffers("ddp", [UNIT], 4, 0) == {**single, "gradient buckets": 128}


@pytest.mark.parametrize("strategy", ["fsdp2", "fsdp2-noreshard"])
@pytest.mark.parametrize(("rank", "own"), [(0, 9 + 2), (2, 9 + 1), (3, 0)])
def test_a_shard_is_padded_to_the_largest(strategy: str, rank: int, own: int) -> None:
    """11 elements are stored on every rank, of which the moments have the rank's own alone; 4 ranks make the mesh."""
    assert ledger.resident_buffers(strategy, [UNIT[:1], UNIT[1:]], 4, rank) == {
        "parameters": 4 * own,
        "padding": 4 * (11 - own),
        "moments": 8 * own,
        "steps": 8,
        "mesh": 16,
    }


@pytest.mark.parametrize(
    ("precision", "rank", "own", "touched", "stored"),
    [
        ("mixed", 0, 10, 1, 10),  # 27, aligned to 32, and 5 more: 37 elements, 10 a rank
        ("mixed", 2, 7, 1, 10),  # elements 20 to 30: the first ends at 27, the second begins at 32
        ("mixed", 3, 5, 1, 10),
        ("fp32", 2, 9, 1, 9),  # aligned to 28: 33 elements, 9 a rank
        ("fp32", 3, 5, 1, 9),
    ],
)
def test_a_flat_shard_is_a_run_of_elements(
    precision: ledger.Precision, rank: int, own: int, touched: int, stored: int
) -> None:
    """Parameters begin at 16 bytes of what is computed in; a unit without parameters holds nothing."""
    assert ledger.resident_buffers("fsdp1", [[], UNIT], 4, rank, precision) == {
        "parameters": 4 * own,
        "padding": 4 * (stored - own),
        "moments": 8 * own,
        "steps": 4 * touched,
        "gradients": 4 * stored,
    }


def test_a_single_element_has_a_step() -> None:
    """Of a parameter that has one element on a rank AdamW counts the steps there; bytes are whole numbers."""
    buffers = ledger.resident_buffers("fsdp1", [[(3,), (1,)]], 1, 0)
    assert ledger.explain(buffers) == ("parameters 16 + padding 20 + moments 32 + steps 8 + gradients 36 = 112 bytes")


def test_a_flat_run_may_cut_two_parameters() -> None:
    """Of two ranks the second has a step for each; units add up."""
    one = ledger.resident_buffers("fsdp1", [UNIT], 2, 1)  # elements 19 to 38: 8 of the first, 5 of the second
    assert one == {"parameters": 52, "padding": 24, "moments": 104, "steps": 8, "gradients": 76}
    two = ledger.resident_buffers("fsdp1", [UNIT, UNIT], 2, 1)
    assert two == {name: 2 * size for name, size in one.items()}


@pytest.mark.parametrize(
    ("strategy", "precision", "width", "gradients", "bucket", "whole"),
    [
        ("zero3", "mixed", 2, 4, 0, 0),
        ("zero3", "fp32", 4, 4, 0, 0),
        ("zero3-defaults", "mixed", 2, 2, 10**9, 4 * 11 * 2),
        ("zero3-defaults", "fp32", 4, 4, 2 * 10**9, 4 * 11 * 4),
    ],
)
def test_stage_3_holds_runs_of_every_parameter(
    strategy: str, precision: ledger.Precision, width: int, gradients: int, bucket: int, whole: int
) -> None:
    """7, 2 and 2 elements on each of 4 ranks, whichever; the defaults keep a bucket and small parameters whole."""
    for rank in (0, 3):
        assert ledger.resident_buffers(strategy, [UNIT, [(4, 2)]], 4, rank, precision) == {
            "shards": width * 11,
            "masters": 44,
            "moments": 88,
            "steps": 4,
            "gradients": gradients * 11,
            "gradient bucket": bucket,
            "whole parameters": whole,
            "gradient norm": 8,
            "overflow flag": 1,
        }


@pytest.mark.parametrize(
    ("strategy", "size"),
    [("single", 128), ("ddp", 0), ("fsdp1", 0), ("zero3", 0), ("fsdp2", 44), ("fsdp2-noreshard", 44)],
)
def test_what_setting_gradients_to_none_frees(strategy: str, size: int) -> None:
    """All, nothing where they are views into memory that stays, and each rank's padded shard."""
    assert ledger.gradient_bytes(strategy, [UNIT], 4) == size


def test_of_equal_ranks_the_first_is_the_largest_and_the_last_the_smallest() -> None:
    """A tie is settled the same way everywhere."""
    sizes = [5, 9, 9, 5]
    assert ledger.largest_rank(lambda rank: {"x": sizes[rank]}, 4) == 1
    assert ledger.smallest_rank(lambda rank: {"x": sizes[rank]}, 4) == 3


@pytest.mark.parametrize(
    ("strategy", "precision", "messages"),
    [
        ("fsdp2", "mixed", [("all-gather", "bfloat16", 3, 2 * 96), ("reduce-scatter", "float32", 2, 4 * 44 + 4 * 8)]),
        ("fsdp2", "fp32", [("all-gather", "float32", 3, 4 * 96), ("reduce-scatter", "float32", 2, 4 * 52)]),
        ("fsdp2-noreshard", "fp32", [("all-gather", "float32", 2, 208), ("reduce-scatter", "float32", 2, 208)]),
        ("fsdp1", "mixed", [("all-gather", "bfloat16", 3, 2 * 88), ("reduce-scatter", "float32", 2, 4 * 48)]),
        ("fsdp1", "fp32", [("all-gather", "float32", 3, 4 * 80), ("reduce-scatter", "float32", 2, 4 * 44)]),
        ("ddp", "mixed", [("all-reduce", "float32", 1, 4 * 40)]),
        ("single", "mixed", []),
    ],
)
def test_messages_of_a_step(
    strategy: str, precision: ledger.Precision, messages: list[tuple[str, str, int, int]]
) -> None:
    """A block of 44 padded elements (flat: 40 or 36) and a root of 8, on 4 ranks; an empty block sends nothing."""
    root = [(4, 2)]
    assert ledger.steady_collectives(strategy, [UNIT, []], root, 4, precision) == [tally(*each) for each in messages]


def test_other_dtypes_are_messages_of_their_own() -> None:
    """Sorted by dtype; a block of bfloat16 beside a root of float32, computed in what they are."""
    assert ledger.steady_collectives("fsdp2", [BF16], [(4, 2)], 2, "fp32") == [
        tally("all-gather", "bfloat16", 2, 2 * 16),
        tally("all-gather", "float32", 1, 32),
        tally("reduce-scatter", "bfloat16", 1, 16),
        tally("reduce-scatter", "float32", 1, 32),
    ]
    assert ledger.steady_collectives("ddp", [BF16], [(4, 2), (1,)], 2, "mixed") == [
        tally("all-reduce", "bfloat16", 1, 16),
        tally("all-reduce", "float32", 1, 36),
    ]


def test_a_reduction_is_padded_by_rows_unless_it_is_flat() -> None:
    """44 elements, of FSDP1 40; parameters of bfloat16 are reduced in float32 if mixed."""
    assert [ledger.reduce_bytes(UNIT, 4, "mixed"), ledger.reduce_bytes(UNIT, 4, "mixed", flat=True)] == [176, 160]
    assert [ledger.reduce_bytes(BF16, 2, precision) for precision in ("mixed", "fp32")] == [32, 16]


def test_mixed_dtypes_in_a_flat_unit_follow_its_first() -> None:
    """Reduced in float32 if mixed, else as the parameters are."""
    assert ledger.reduce_bytes(BF16, 2, "fp32", flat=True) == 2 * 2 * 4
    assert ledger.reduce_bytes(BF16, 2, "mixed", flat=True) == 2 * 4 * 4


def test_ddp_compares_by_bytes() -> None:
    """How many buckets there are is the model's; of any other strategy the count is kept."""
    sent = [tally("all-reduce", "float32", 7, 100)]
    assert comparable("ddp", sent) == [tally("all-reduce", "float32", 1, 100)]
    assert comparable("fsdp2", sent) == sent


def test_default_buckets_are_ddps() -> None:
    """1 MiB first, then 25 MiB: gradients of 1 MiB make one of 1, one of 25 and the rest."""
    mib = [(512, 512)] * 30
    assert [size >> 20 for _, size in ledger.ddp_buckets(mib)] == [1, 25, 4]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: ledger.steady_collectives("zero9", [], [], 2, "mixed"),
            "the ledger has no collectives for strategy 'zero9': it knows single, ddp, fsdp1, fsdp2.",
        ),
        (
            lambda: ledger.resident_buffers("zero9", [], 2, 0),
            "the ledger has no entry for strategy 'zero9': it knows single, ddp, fsdp1, fsdp2, zero3.",
        ),
    ],
)
def test_what_the_ledger_does_not_know_is_said(call: object, words: str) -> None:
    """With what it knows."""
    assert callable(call)
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == words
