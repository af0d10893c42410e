"""Each picture draws what its records say: cuts are the ledger's, figures are named, marks are where they belong."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.suite.pages import NIGHT, WORKLOAD, nights, run_of, step
from fixtures.gate.cases import Case
from fixtures.ledger import GPT2_LARGE_PSI, flat_layout, resident_buffers, shard_rows
from fixtures.ledger.alone import largest_moments
from fixtures.measurements import GIB, UnitRecord
from fixtures.report.gallery import held, pictures
from fixtures.report.pictures.geometry import flat_cuts, geometry, row_cuts
from fixtures.report.pictures.knob import PAPER, PUBLISHED, trades
from fixtures.report.pictures.memory import Held, memory_bars
from fixtures.report.pictures.scale import SIZES, resident_by_size
from fixtures.report.pictures.timeline import timeline
from fixtures.report.pictures.trend import trend, worst_first
from fixtures.report.trends import Mark, Point, Trend, trends_of

pytestmark = pytest.mark.cpu

SHAPES = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=5)
OF_A_BLOCK = [[1280], [1280], [3840, 1280], [3840], [1280, 1280], [1280]]
OF_A_BLOCK += [[1280], [1280], [5120, 1280], [5120], [1280, 5120], [1280]]
LARGE = UnitRecord(name="block", parameters={str(i): shape for i, shape in enumerate(OF_A_BLOCK)})


@given(SHAPES, st.integers(2, 9))
@settings(max_examples=50)
def test_flat_cuts_are_equal_runs(shapes: list[list[int]], world_size: int) -> None:
    """Every cut of FSDP1 lies at a multiple of the run's length, whatever the shapes, and none inside is missing."""
    unit = UnitRecord(name="block", parameters={str(i): shape for i, shape in enumerate(shapes)})
    spans, size = flat_layout(shapes, "mixed")
    run = -(-size // world_size)
    starts = {str(i): begin for i, (begin, _) in enumerate(spans)}
    cuts = flat_cuts(unit, world_size)
    at = [starts[c.parameter] + c.row * math.prod(unit.parameters[c.parameter][1:]) + c.column for c in cuts]
    inside = [end for end in range(run, world_size * run, run) if any(a < end < b for a, b in spans)]
    assert at == inside


@given(SHAPES, st.integers(1, 9))
@settings(max_examples=50)
def test_row_cuts_sever_nothing(shapes: list[list[int]], world_size: int) -> None:
    """FSDP2's cuts lie between rows, where the ledger's shards end."""
    unit = UnitRecord(name="block", parameters={str(i): shape for i, shape in enumerate(shapes)})
    cuts = row_cuts(unit, world_size)
    assert all(cut.column == 0 for cut in cuts)
    for name, shape in unit.parameters.items():
        ends = [sum(shard_rows(shape[0], world_size, rank) for rank in range(n)) for n in range(1, world_size)]
        assert [c.row for c in cuts if c.parameter == name] == sorted({end for end in ends if end < shape[0]})


def test_gpt2_large_on_8_ranks_is_severed_6_times() -> None:
    """A block's flat parameter, cut in 8, cuts 6 rows in the middle; the picture says so and names them."""
    picture = geometry(LARGE, 8, "gpt2-large")
    assert (
        "6 of 7 cuts sever a row. FSDP2 cuts every parameter on its own between rows: none does." in picture.description
    )
    assert picture.description.count("at column") == 6
    assert picture.svg.count("rank 7") == 1 + 1 + 4  # the flat bar; its last part; FSDP2's matrices


def test_a_timeline_names_what_is_exposed() -> None:
    """Each arm's exposed communication is on the picture and in its description; a reshard is a tick, not a bar."""
    steps = [step("ddp", 2), step("fsdp2", 2)]
    picture = timeline(steps)
    assert "exposed communication 0 ms of 12 ms" in picture.svg
    assert "exposed communication 4 ms of 16 ms" in picture.svg
    assert "fsdp2: 16 ms, 4 all-gather, 2 forward, 4 reshard, 2 backward" in picture.description


def test_a_long_step_stays_small() -> None:
    """36 blocks in 5 arms: under 200 KB."""
    arms = ("ddp", "fsdp1", "fsdp2", "fsdp2-noreshard", "zero3")
    assert len(timeline([step(arm, 36) for arm in arms]).svg) < 200_000


def test_memory_bars_are_the_ledgers() -> None:
    """At rest each arm's bars are the ledger's buffers of its largest rank; the peak has none until one is known."""
    launches = NIGHT.measurements()
    bars = {(h.strategy, h.moment): h for h in held(launches)}
    assert bars["fsdp2", "resident"].buffers == resident_buffers("fsdp2", WORKLOAD.unit_shapes, 4, 0)
    assert bars["ddp", "resident"].measured == 12 * GIB
    assert not bars["ddp", "peak"].buffers


def test_the_peak_is_the_strategys_and_the_models() -> None:
    """A launch that says in which phase its peak was: that phase's buffers, and the rest is the model's."""
    launches = [
        m.model_copy(
            update={
                "ranks": [
                    r.model_copy(update={"phase_bytes": {"peak_forward": 1, "peak_backward": 2}}) for r in m.ranks
                ]
            }
        )
        for m in NIGHT.measurements()
    ]
    peak = {(h.strategy, h.moment): h for h in held(launches)}["fsdp2", "peak"]
    *blocks, root = WORKLOAD.unit_shapes
    assert peak.buffers == largest_moments("fsdp2", blocks, root, 4)["peak_backward"].buffers
    assert peak.rest == peak.measured - sum(peak.buffers.values()) > 0
    assert "the strategy's (ledger)" in memory_bars([peak], "Peak").svg
    assert ">the model's own<" in memory_bars([peak], "Peak").svg.replace("&#x27;", "'")


def test_thin_buffers_are_one() -> None:
    """A buffer too thin to be seen is part of ``other``, and the ledger's sum is whole."""
    picture = memory_bars([Held("ddp", "resident", 2 * GIB, {"parameters": GIB, "steps": 12, "mesh": 4})], "Memory")
    assert ">other<" in picture.svg
    assert ">steps<" not in picture.svg
    assert "2.000 GiB measured" in picture.svg
    assert "1.000 GiB ledger (+100.0%)" in picture.svg


def test_the_knob_is_read_from_pairs_of_launches() -> None:
    """Memory paid and time saved are differences within a pair; the published point is the write-up's."""
    pairs = trades(NIGHT.measurements())
    assert len(pairs) == NIGHT.launches
    assert {trade.paid_bytes for trade in pairs} == {1 * GIB}
    assert all(40 < trade.saved_ms < 80 for trade in pairs)
    assert (round(PUBLISHED.models, 2), round(PUBLISHED.percent, 1)) == (0.92, 19.1)
    assert (PAPER.models, round(PAPER.saved_ms)) == (1.0, 71)
    assert PUBLISHED.psi == GPT2_LARGE_PSI


def test_scale_follows_the_ledger() -> None:
    """A line holds what the ledger says of rank 0 at each N."""
    assert resident_by_size("fsdp2", WORKLOAD)[3] == sum(resident_buffers("fsdp2", WORKLOAD.unit_shapes, 8, 0).values())
    assert len(set(resident_by_size("ddp", WORKLOAD))) == 1
    assert len(SIZES) == 11


def trend_of(numerator: str, ratios: list[float], **more: Any) -> Trend:
    """A case with these ratios, night by night, judged by 1.0."""
    first = datetime(2026, 5, 1, tzinfo=UTC)
    points = tuple(Point(first + timedelta(i), r, r * 0.99, r * 1.01, 1.0, r > 1.1) for i, r in enumerate(ratios))
    case = Case(workload="m", numerator=numerator, denominator="ddp", metric="peak")
    return Trend(case, points, **more)


def test_the_worst_case_is_drawn_first() -> None:
    """What failed last night comes before what moved further and passed."""
    calm, failing, moved = trend_of("a", [1.0, 1.0]), trend_of("b", [1.0, 1.11]), trend_of("c", [1.0, 0.8])
    assert [t.case.numerator for t in worst_first([calm, moved, failing])] == ["b", "c", "a"]


def test_a_trend_marks_what_changed() -> None:
    """A change of stack is written where it happened, on the picture and in words."""
    mark = Mark(datetime(2026, 5, 2, tzinfo=UTC), "stack", "torch 2.13.0 -> 2.14.1")
    picture = trend([trend_of("fsdp2", [1.0, 1.02, 1.2], marks=(mark,))], "Nights")
    assert "torch 2.13.0 -&gt; 2.14.1" in picture.svg
    assert "2026-05-02: torch 2.13.0 -> 2.14.1" in picture.description
    assert ">failed<" in picture.svg


def test_marks_come_from_the_history() -> None:
    """Between two nights a new stack and a new baseline are marks of every case; the same again is none."""
    first, second = nights(2, 1)
    changed = second.model_copy(
        update={
            "stack": first.stack.model_copy(update={"torch": "2.14.1"}),
            "comparisons": tuple(c.model_copy(update={"baseline": 0.5}) for c in second.comparisons),
        }
    )
    marks = trends_of([first, changed])[0].marks
    assert [(m.kind, m.when) for m in marks] == [("stack", changed.when), ("baseline", changed.when)]
    assert marks[0].text == "torch 2.13.0 -> 2.14.1"
    assert not trends_of([first, second])[0].marks


def test_launches_without_shapes_have_the_pictures_that_need_none() -> None:
    """From before shapes were recorded: no geometry, no scale."""
    bare = WORKLOAD.model_copy(update={"units": []})
    old = run_of()
    old = type(old)([m.model_copy(update={"workload": bare}) for m in old.measurements], old.comparisons)
    assert [p.name for p in pictures(old)] == ["memory", "knob"]
