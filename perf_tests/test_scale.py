"""Property: as N grows, what a rank holds and what the host does is what docs/scale.md says, exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from fixtures import ledger
from fixtures.errors import InvalidMeasurementError
from fixtures.full_size import FullSize, read_full_size
from fixtures.ranks.pool import RankPool
from fixtures.report.grids import markdown_of
from fixtures.report.pictures.padding import padding
from fixtures.scaling import Takeover, takeovers
from perf_tests.scale import CURVE, WORKLOAD, activation_bytes, check, main, model_of, tables
from perf_tests.scale_counts import Counts, count_step, count_wrap

pytestmark = pytest.mark.cpu

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
DEADLINE_S = 240.0
MLP_BLOCKS, MLP_ROWS = 4, (256, 256, 64, 64)
"""Of the workload mlp: its blocks, and the rows of a block's parameters; its root has none."""


@functools.cache
def _read(pool: RankPool, world_size: int, rank: int) -> FullSize:
    reading: FullSize = pool.run(read_full_size, WORKLOAD, "fsdp2", world_size, rank, 1, deadline_s=DEADLINE_S)[0]
    return reading


@functools.cache
def _wrap(pool: RankPool, world_size: int) -> Counts:
    counts: Counts = pool.run(count_wrap, "mlp", "fsdp2", world_size)[0]
    return counts


def test_even_shards_of_gpt2_large_on_64_ranks(solo: Callable[[int], RankPool]) -> None:
    """Rank 0 of 64 holds what the ledger says, to the byte; what is left at its peak goes into the next test."""
    reading = _read(solo(8), 64, 0)
    check(reading, activation_bytes(reading))


def test_padded_shards_of_gpt2_large_on_512_ranks(solo: Callable[[int], RankPool]) -> None:
    """The last rank of 512, most of its shards padding, holds the ledger's bytes, and the same activations as of 64."""
    check(_read(solo(8), 512, 511), activation_bytes(_read(solo(8), 64, 0)))


def test_the_page_has_the_ledgers_tables(solo: Callable[[int], RankPool]) -> None:
    """Each table of docs/scale.md that the ledger makes is what it makes now."""
    page = PAGE.read_text(encoding="utf-8")
    parts = tables(model_of(), activation_bytes(_read(solo(8), 64, 0)))
    missing = [name for name, grid in parts.items() if f"<!-- table: {name} -->\n{markdown_of(grid)}\n<!--" not in page]
    assert not missing, f"docs/scale.md is old, {missing}: run python -m perf_tests.scale --out docs"


def test_a_wrong_byte_is_refused(solo: Callable[[int], RankPool]) -> None:
    """A reading that is off by a byte, at rest or at its peak, is said to be, with the difference."""
    reading = _read(solo(8), 64, 0)
    activations = activation_bytes(reading)
    with pytest.raises(InvalidMeasurementError, match=r"resident, fsdp2, rank 0 of cpu-solo-64.*difference \+1\."):
        check(replace(reading, resident_bytes=reading.resident_bytes + 1), activations)
    with pytest.raises(InvalidMeasurementError, match=r"peak, fsdp2, rank 0 of cpu-solo-64.*difference -1\."):
        check(reading, activations + 1)


def test_padding_takes_over_where_rows_run_out() -> None:
    """A matrix of 4 rows: from N = 5 on the last rank has no row, from 9 on there is more padding than rows."""
    found = {entry.what: entry.first for entry in takeovers([[(4, 3)]], [], most=64)}
    assert found["the last rank stores more padding than rows and their moments"] == 5
    assert found["the mean rank stores more padding than rows"] == 9
    even = takeovers([[(64, 3)]], [], most=64)
    assert Takeover("the mean rank stores more padding than rows", None) in even


def test_wrapping_makes_n_tensors_a_parameter(solo: Callable[[int], RankPool]) -> None:
    """fully_shard cuts every parameter into all N chunks, twice where it reshards, with no call of Python for each.

    Calls differ by how often a cache of DTensor's finds its key equal but not the same, a few a parameter.
    """
    few, many = _wrap(solo(8), 8), _wrap(solo(8), 64)
    parameters = MLP_BLOCKS * len(MLP_ROWS)
    chunks = 2 * parameters * (64 - 8)
    assert many.tensors - few.tensors == chunks
    assert many.operators == few.operators
    assert abs(many.calls - few.calls) < chunks / 8


def test_wrapping_makes_chunks_that_are_not_there(solo: Callable[[int], RankPool]) -> None:
    """Where a parameter has fewer chunks than N each of the others is an operator of its own, an empty tensor."""
    few, many = _wrap(solo(8), 64), _wrap(solo(8), 200)
    missing = [200 - -(-rows // ledger.chunk_rows(rows, 200)) for rows in MLP_ROWS]
    assert many.operators - few.operators == 2 * MLP_BLOCKS * sum(missing)


def test_a_step_of_fsdp2_does_not_know_n(solo: Callable[[int], RankPool]) -> None:
    """A steady step of FSDP2 is the same operators, tensors and calls at N = 8 and 64; FSDP1 makes more tensors."""
    few, many = (solo(8).run(count_step, "mlp", "fsdp2", size)[0] for size in (8, 64))
    assert (many.operators, many.tensors) == (few.operators, few.tensors)
    assert many.calls == pytest.approx(few.calls, rel=0.01)
    flat_few, flat_many = (solo(8).run(count_step, "mlp", "fsdp1", size)[0] for size in (8, 64))
    assert flat_many.tensors > flat_few.tensors + 64 - 8


def test_a_folder_without_the_page_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without the page is an error that says so."""
    assert main(["--out", str(tmp_path)]) == 2
    assert "there is no scale.md in it; name the folder docs." in capsys.readouterr().err


def test_the_picture_is_what_the_ledger_draws() -> None:
    """docs/pictures/padding.svg says what the ledger says now: its text has the figures at the right end."""
    model = model_of()
    picture = padding("GPT-2 Large", [model.at(size) for size in CURVE], {})
    stored = (PAGE.parent / "pictures" / f"{picture.name}.svg").read_text(encoding="utf-8")
    assert escape(picture.description) in stored, "the picture is old: run python -m perf_tests.scale --out docs"
