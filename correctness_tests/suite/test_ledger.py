"""Property: the parts of the ledger add up, for every shape, dtype and N."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures import ledger
from fixtures.errors import UsageError
from fixtures.measurements import CollectiveTally

pytestmark = pytest.mark.cpu

SHAPES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=5)


@given(rows=st.integers(0, 200), world_size=st.integers(1, 16))
def test_rows_of_all_ranks_are_the_rows(rows: int, world_size: int) -> None:
    """Shards add up to the rows; full ones come first, then at most one that is shorter, then empty ones."""
    shards = [ledger.shard_rows(rows, world_size, rank) for rank in range(world_size)]
    assert sum(shards) == rows
    assert shards == sorted(shards, reverse=True)
    assert sum(0 < shard < ledger.chunk_rows(rows, world_size) for shard in shards) <= 1


def test_ten_rows_over_eight_ranks() -> None:
    """torch.chunk's cut, as measured: 2, 2, 2, 2, 2, 0, 0, 0."""
    assert [ledger.shard_rows(10, 8, rank) for rank in range(8)] == [2, 2, 2, 2, 2, 0, 0, 0]


@given(shapes=SHAPES, world_size=st.integers(1, 9))
def test_sharded_state_of_all_ranks_is_the_model(shapes: list[tuple[int, int]], world_size: int) -> None:
    """Over all ranks parameters are 4 psi and moments 8 psi, and stored parameters are of one size on each rank."""
    ranks = [ledger.resident_buffers("fsdp2", [shapes], world_size, rank) for rank in range(world_size)]
    psi = ledger.num_params(shapes)
    assert sum(buffers["parameters"] for buffers in ranks) == 4 * psi
    assert sum(buffers["moments"] for buffers in ranks) == 8 * psi
    assert len({buffers["parameters"] + buffers["padding"] for buffers in ranks}) == 1


@given(shapes=SHAPES, world_size=st.integers(1, 9), precision=st.sampled_from(["mixed", "fp32"]))
def test_flat_state_of_all_ranks_is_the_model(
    shapes: list[tuple[int, int]], world_size: int, precision: ledger.Precision
) -> None:
    """FSDP1's runs of elements cover each parameter once, wherever they cut."""
    ranks = [ledger.resident_buffers("fsdp1", [shapes], world_size, rank, precision) for rank in range(world_size)]
    assert sum(buffers["parameters"] for buffers in ranks) == 4 * ledger.num_params(shapes)


@given(rows=st.integers(1, 50), columns=st.integers(1, 50), units=st.integers(1, 5), world_size=st.integers(1, 8))
def test_without_rounding_the_ledger_is_the_published_arithmetic(
    rows: int, columns: int, units: int, world_size: int
) -> None:
    """When N divides every row count, FSDP2 holds 12 psi / N and DDP 16 psi, but for steps and mesh."""
    shapes = [[(rows * world_size, columns)]] * units
    psi = units * rows * world_size * columns
    sharded = ledger.resident_buffers("fsdp2", shapes, world_size, rank=0)
    assert sharded["padding"] == 0
    assert sharded["parameters"] + sharded["moments"] == ledger.published_resident_bytes("fsdp2", psi, world_size)
    replicated = ledger.resident_buffers("ddp", shapes, world_size, rank=0)
    assert sum(replicated.values()) - replicated["steps"] == ledger.published_resident_bytes("ddp", psi, world_size)


def test_resharding_costs_one_gather_of_the_blocks() -> None:
    """The knob saves backward's gather of each block and nothing else; gathers are bfloat16, reductions float32."""
    blocks, root = [[(8, 4)]] * 3, [(4, 4)]
    fsdp2 = ledger.steady_collectives("fsdp2", blocks, root, 4, "mixed")
    noreshard = ledger.steady_collectives("fsdp2-noreshard", blocks, root, 4, "mixed")
    assert fsdp2[0] == CollectiveTally(kind="all-gather", dtype="bfloat16", count=7, bytes=2 * (6 * 32 + 16))
    assert noreshard[0] == CollectiveTally(kind="all-gather", dtype="bfloat16", count=4, bytes=2 * (3 * 32 + 16))
    assert fsdp2[1] == noreshard[1] == CollectiveTally(kind="reduce-scatter", dtype="float32", count=4, bytes=4 * 112)


@given(shapes=SHAPES, world_size=st.integers(1, 9))
def test_padding_makes_every_message_divisible(shapes: list[tuple[int, int]], world_size: int) -> None:
    """A unit's message is N equal parts, at least the parameters and less than one more row of each for each rank."""
    (_, reduced) = ledger.steady_collectives("fsdp2", [], shapes, world_size, "fp32")
    numel, rest = divmod(reduced.bytes, 4 * world_size)
    assert rest == 0
    assert ledger.num_params(shapes) <= numel * world_size
    assert numel * world_size < ledger.num_params(shapes) + world_size * sum(math.prod(shape[1:]) for shape in shapes)


def test_a_root_without_parameters_sends_nothing() -> None:
    """When the blocks hold all parameters, the root unit has no message."""
    assert [tally.count for tally in ledger.steady_collectives("fsdp2", [[(4, 4)]], [], 2, "mixed")] == [2, 1]


@pytest.mark.parametrize("entry", ["resident", "messages", "gradients"])
def test_an_unknown_strategy_is_named(entry: str) -> None:
    """A strategy that the ledger cannot account for is an error that lists those it can."""
    entries: dict[str, Callable[[], object]] = {
        "resident": lambda: ledger.resident_buffers("fsdp3", [], 2, 0),
        "messages": lambda: ledger.steady_collectives("fsdp3", [], [], 2, "mixed"),
        "gradients": lambda: ledger.gradient_bytes("fsdp3", [], 2),
    }
    with pytest.raises(UsageError, match=r"fsdp3.*fsdp2"):
        entries[entry]()


def test_explain_names_every_buffer() -> None:
    """The message of a failing budget shows each buffer and the sum."""
    assert ledger.explain({"parameters": 4000, "steps": 8}) == "parameters 4,000 + steps 8 = 4,008 bytes"


BF16_BLOCK = [ledger.Parameter((8, 4), "bfloat16"), ledger.Parameter((8,), "bfloat16")]
FLOAT_BLOCK = [(8, 4), (8,)]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp1", "fsdp2"])
def test_bfloat16_parameters_halve_memory_and_communication(strategy: str) -> None:
    """The write-up's limit: with pure bfloat16 parameters all but the steps and the mesh halves, and so do messages."""

    def of(block: list[ledger.Entry]) -> tuple[int, int]:
        buffers = ledger.resident_buffers(strategy, [block], 2, 0, "fp32")
        sent = ledger.steady_collectives(strategy, [block], [], 2, "fp32")
        return sum(b for name, b in buffers.items() if name not in ("steps", "mesh")), sum(t.bytes for t in sent)

    assert of([*FLOAT_BLOCK]) == tuple(2 * half for half in of([*BF16_BLOCK]))


def test_a_unit_of_several_dtypes_is_gathered_as_bytes() -> None:
    """FSDP2 sends parameters of several dtypes in one message of bytes; it can't reduce them in one."""
    mixture: list[ledger.Entry] = [ledger.Parameter((4, 2), "bfloat16"), (4,)]
    with pytest.raises(UsageError, match="in one dtype"):
        ledger.steady_collectives("fsdp2", [mixture], [], 2, "fp32")
    gather, _ = ledger.steady_collectives("fsdp2", [mixture], [], 2, "mixed")
    assert (gather.dtype, gather.bytes) == ("bfloat16", 2 * 2 * (8 + 4))
    assert ledger.gather_bytes(mixture, 2, "fp32") == 2 * 8 + 4 * 4


def test_fsdp1_takes_a_unit_of_one_dtype() -> None:
    """A unit of several dtypes is an error, as in FSDP1 itself."""
    with pytest.raises(UsageError, match="one dtype only"):
        ledger.resident_buffers("fsdp1", [[ledger.Parameter((4, 2), "bfloat16"), (4,)]], 2, 0)


def test_an_unknown_dtype_is_named() -> None:
    """A dtype without a width is an error that lists those with one."""
    with pytest.raises(UsageError, match=r"int4.*bfloat16"):
        _ = ledger.Parameter((4,), "int4").bytes


def test_a_bucket_closes_once_it_is_full() -> None:
    """A gradient that reaches the cap goes into the bucket; the first cap is smaller; the rest is a bucket too."""
    ready = [(3,), (3,), (9,), (2,), (7,), (1,)]
    assert ledger.ddp_buckets(ready, first=20, cap=40) == [("float32", 24), ("float32", 44), ("float32", 32)]


def test_each_dtype_has_buckets_of_its_own() -> None:
    """Gradients of two dtypes never share a bucket, and each dtype counts its caps from the first."""
    ready: list[ledger.Entry] = [(5,), ledger.Parameter((4,), "bfloat16"), (1,), ledger.Parameter((6,), "bfloat16")]
    assert ledger.ddp_buckets(ready, first=20, cap=40) == [("float32", 20), ("bfloat16", 20), ("float32", 4)]


@given(shapes=SHAPES, first=st.integers(1, 500), cap=st.integers(1, 900))
def test_buckets_hold_every_gradient(shapes: list[tuple[int, int]], first: int, cap: int) -> None:
    """Whatever the caps, the buckets add up to 4 bytes a parameter, which is what the collectives' ledger says."""
    sizes = [size for _, size in ledger.ddp_buckets(shapes, first, cap)]
    assert sum(sizes) == ledger.steady_collectives("ddp", [shapes], [], 2, "mixed")[0].bytes


def test_the_largest_and_the_smallest_rank() -> None:
    """Ten rows over eight ranks: rank 0 has the most, rank 7 nothing."""

    def buffers(rank: int) -> dict[str, int]:
        return ledger.resident_buffers("fsdp2", [[(10, 3)]], 8, rank)

    assert (ledger.largest_rank(buffers, 8), ledger.smallest_rank(buffers, 8)) == (0, 7)
