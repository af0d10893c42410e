"""Which messages a bandwidth table is measured with, and the seconds that it gives for others."""

from __future__ import annotations

import pytest

from fixtures.bandwidth import PUBLISHED, Bandwidth, BandwidthTable, Message, bus_factor
from fixtures.errors import UsageError
from fixtures.ledger import Parameter, Precision, Unit
from fixtures.ledger.messages import messages_of

pytestmark = pytest.mark.cpu

TABLE = BandwidthTable(
    source="paper",
    world_size=4,
    rows=[
        Bandwidth(kind="all-gather", dtype="bfloat16", bytes=1000, gb_per_s=1.0),
        Bandwidth(kind="all-gather", dtype="bfloat16", bytes=3000, gb_per_s=2.0),
        Bandwidth(kind="all-reduce", dtype="float32", bytes=5000, gb_per_s=4.0),
    ],
)


@pytest.mark.parametrize(
    ("kind", "size", "seconds"),
    [("all-gather", 1900, 1.9e-6), ("all-gather", 2100, 1.05e-6), ("all-gather", 9e9, 4.5), ("all-reduce", 8, 2e-9)],
)
def test_the_nearest_row_of_the_kind_gives_the_seconds(kind: str, size: float, seconds: float) -> None:
    """Bytes over the bandwidth of the row nearest in size; rows of other kinds have no part in it."""
    assert TABLE.seconds(kind, int(size)) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("table", "known"), [(TABLE, "all-gather, all-reduce"), (TABLE.model_copy(update={"rows": []}), "nothing")]
)
def test_a_kind_without_a_row_is_named(table: BandwidthTable, known: str) -> None:
    """With the kinds that the table has."""
    with pytest.raises(UsageError) as caught:
        table.seconds("broadcast", 1)
    assert str(caught.value) == f"the bandwidth table of paper has no broadcast: it has {known}."


def test_a_row_took_its_bytes_over_its_bandwidth() -> None:
    """The published all-gather: 1.55 GB at 21.8 GB/s are 71 ms."""
    assert PUBLISHED.rows[1].ms == pytest.approx(1550 / 21.8, rel=1e-12)


def test_bus_bandwidth_is_nccl_tests() -> None:
    """On 8 ranks an all-reduce's bus bandwidth is 7/4 of its algorithm bandwidth, an all-gather's 7/8."""
    reduce, gather = PUBLISHED.rows
    assert (reduce.bus_gb_per_s(8), gather.bus_gb_per_s(8)) == (10.2 * 7 / 4, 21.8 * 7 / 8)


@pytest.mark.parametrize(("kind", "factor"), [("all-reduce", 1.75), ("all-gather", 0.875), ("reduce-scatter", 0.875)])
def test_a_ring_moves_more_than_the_message(kind: str, factor: float) -> None:
    """2 (N - 1) / N and (N - 1) / N, on 8 ranks."""
    assert bus_factor(kind, 8) == factor


def sweep(kind: str, dtype: str, *sizes: int) -> list[Message]:
    """Messages of a kind that no arm sends."""
    return [Message(kind=kind, dtype=dtype, bytes=size) for size in sizes]


@pytest.mark.parametrize(
    ("largest", "sizes"),
    [(8192, (1024, 8192)), (8193, (1024, 8192, 8193)), (512, (512,)), (2**20, (1024, 8192, 65536, 524288, 2**20))],
)
@pytest.mark.parametrize(("precision", "gathered"), [("mixed", "bfloat16"), ("fp32", "float32")])
def test_a_sweep_goes_up_to_the_largest(
    precision: Precision, gathered: str, largest: int, sizes: tuple[int, ...]
) -> None:
    """1 KiB, 8 times as much each, and the largest once; gathers in what is computed in. No units: nothing else."""
    assert messages_of([], 4, precision, largest) == [
        *sweep("all-reduce", "float32", *sizes),
        *sweep("all-gather", gathered, *sizes),
        *sweep("reduce-scatter", "float32", *sizes),
    ]


def own(*units: Unit, precision: Precision = "mixed") -> list[tuple[str, str, int, str]]:
    """The messages of the arms, on 4 ranks."""
    return [(m.kind, m.dtype, m.bytes, m.use) for m in messages_of(list(units), 4, precision, 8192) if m.use]


def test_the_arms_send_all_gradients_a_block_and_the_root() -> None:
    """45 elements; a block of 12 and 3, stored as 4 x (3 + 1); a root of 5 rows of 3, stored as 8."""
    blocks = [[(4, 3), (3,)]] * 2
    assert own(*blocks, [(5, 3)]) == [
        ("all-reduce", "float32", 180, "ddp, all gradients"),
        ("all-gather", "bfloat16", 32, "fsdp2, a block"),
        ("reduce-scatter", "float32", 64, "fsdp2, a block"),
        ("all-gather", "bfloat16", 48, "fsdp2, the root"),
        ("reduce-scatter", "float32", 96, "fsdp2, the root"),
    ]


def test_gradients_of_small_dtypes_are_reduced_as_they_are_told() -> None:
    """In float32 if mixed, whatever the parameters are: 4 ranks by a row of 2."""
    root: Unit = [Parameter((4, 2), "bfloat16")]
    assert [own(root, precision=precision)[-1][2] for precision in ("mixed", "fp32")] == [32, 16]


def test_a_model_of_one_unit_has_a_root_alone() -> None:
    """No block is named; a root without parameters is no message."""
    assert [use for *_, use in own([(5, 3)])] == ["ddp, all gradients", "fsdp2, the root", "fsdp2, the root"]
    assert [use for *_, use in own([(5, 3)], [])] == ["ddp, all gradients", "fsdp2, a block", "fsdp2, a block"]


def test_gradients_beyond_a_bucket_bring_the_bucket() -> None:
    """25 MiB fit into one; a row more does not, and DDP sends buckets of 25 MiB."""
    fits, more = [(25, 512, 512)], [(26, 512, 512)]
    assert own(fits)[0] == ("all-reduce", "float32", 25 * 2**20, "ddp, all gradients")
    assert own(more)[:2] == [
        ("all-reduce", "float32", 25 * 2**20, "ddp, a bucket"),
        ("all-reduce", "float32", 26 * 2**20, "ddp, all gradients"),
    ]


def test_arms_in_full_precision_gather_four_bytes() -> None:
    """Of dtype float32."""
    assert own([(5, 3)], precision="fp32")[1] == ("all-gather", "float32", 96, "fsdp2, the root")
