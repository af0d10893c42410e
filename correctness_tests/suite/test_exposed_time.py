"""Exposed communication is what no computation covers, of any timeline that a file may hold, also one without bars."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.pages import run_of
from fixtures.report.gallery import pictures
from fixtures.timelines import Span, Timeline

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(60)]

INTERVALS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 4)).map(lambda at: (at[0], at[0] + at[1])), max_size=8
)


def step(compute: list[tuple[int, int]], sent: list[tuple[int, int]]) -> Timeline:
    """A timeline of these intervals, ms."""
    lanes = (("compute", "forward", compute), ("communication", "all-gather", sent))
    spans = [
        Span.model_validate({"lane": lane, "kind": kind, "start_ms": start, "end_ms": end})
        for lane, kind, intervals in lanes
        for start, end in intervals
    ]
    return Timeline(strategy="fsdp2", source="profiled", spans=tuple(spans))


@given(INTERVALS, INTERVALS)
def test_exposed_is_what_nothing_covers(compute: list[tuple[int, int]], sent: list[tuple[int, int]]) -> None:
    """Millisecond by millisecond: communication runs and no computation does; intervals are in order and disjoint."""

    def runs(intervals: list[tuple[int, int]], at: int) -> bool:
        return any(start <= at < end for start, end in intervals)

    exposed = step(compute, sent).exposed
    found = [at for at in range(20) if any(start <= at < end for start, end in exposed)]
    assert found == [at for at in range(20) if runs(sent, at) and not runs(compute, at)]
    ends = [end for interval in exposed for end in interval]
    assert ends == sorted(ends)
    assert all(start < end for start, end in exposed)


def test_a_long_step_takes_no_longer_a_bar() -> None:
    """As many bars as a file may hold: each is looked at once, and not beside each other one."""
    many = 20_000
    long = step([(3 * i, 3 * i + 1) for i in range(many)], [(3 * i, 3 * i + 2) for i in range(many)])
    assert long.exposed_ms == many


def test_a_step_without_bars_has_no_picture() -> None:
    """A timeline of nothing at all, alone or beside others, is left out of the pictures."""
    run = run_of()
    nothing, something = step([], []), step([(0, 2)], [(1, 3)])
    assert not [p for p in pictures(replace(run, timelines=[nothing])) if p.name.startswith("timeline")]
    assert [p.name for p in pictures(replace(run, timelines=[nothing, something])) if "timeline" in p.name] == [
        "timeline-profiled"
    ]
