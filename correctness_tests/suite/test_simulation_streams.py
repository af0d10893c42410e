"""Property: lanes work in order, wait for one another, and never do two things at once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulation.streams import Placed, Task, run, step_ms

pytestmark = pytest.mark.cpu

LANES = ("compute", "gather", "reduce")


@st.composite
def tasks(draw: st.DrawFn) -> list[Task]:
    """Up to twelve tasks on three lanes, each after any of those before it."""
    found: list[Task] = []
    for i in range(draw(st.integers(0, 12))):
        after = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        ms = draw(st.integers(0, 1000)) / 8  # sums of eighths are exact
        found.append(Task(draw(st.sampled_from(LANES)), "work", str(i), ms, tuple(sorted(after))))
    return found


def spans(placed: list[Placed]) -> list[tuple[float, float]]:
    """When each task begins and ends."""
    return [(p.start_ms, p.end_ms) for p in placed]


def test_a_chain_over_lanes_takes_its_sum() -> None:
    """Three tasks on three lanes that wait for one another run one after the other."""
    chain = [Task("a", "", "", 1.0), Task("b", "", "", 2.0, (0,)), Task("c", "", "", 3.0, (1,))]
    assert spans(run(chain)) == [(0.0, 1.0), (1.0, 3.0), (3.0, 6.0)]


def test_lanes_that_do_not_wait_run_at_once() -> None:
    """The step is as long as its longest lane."""
    assert step_ms(run([Task("a", "", "", 3.0), Task("b", "", "", 2.0), Task("b", "", "", 2.0)])) == 4.0


def test_a_waiting_task_holds_up_those_behind_it() -> None:
    """A lane is a queue: what could begin at once does not overtake."""
    queue = [Task("a", "", "", 5.0), Task("b", "", "", 1.0, (0,)), Task("b", "", "", 1.0)]
    assert spans(run(queue)) == [(0.0, 5.0), (5.0, 6.0), (6.0, 7.0)]


@pytest.mark.parametrize("bad", [Task("a", "", "", 1.0, (1,)), Task("a", "", "", 1.0, (-1,)), Task("a", "", "", -1.0)])
def test_no_task_waits_for_what_comes_later(bad: Task) -> None:
    """A wait for a task that is not before it, or a negative time, is refused with the task's number."""
    with pytest.raises(ValueError, match=r"task 0 .* not before it"):
        run([bad, Task("a", "", "", 1.0)])


@settings(max_examples=50)
@given(tasks())
def test_a_lane_never_overlaps_itself(found: list[Task]) -> None:
    """Each lane's tasks come one after the other, in the order in which they were given."""
    placed = run(found)
    for lane in LANES:
        own = [p for p in placed if p.task.lane == lane]
        assert all(before.end_ms <= after.start_ms for before, after in pairwise(own))


@settings(max_examples=50)
@given(tasks())
def test_no_task_begins_before_what_it_waits_for_has_ended(found: list[Task]) -> None:
    """Every wait is kept, and every task takes its time."""
    placed = run(found)
    for p in placed:
        assert all(placed[i].end_ms <= p.start_ms for i in p.task.after)
        assert p.end_ms - p.start_ms == p.task.ms


@settings(max_examples=50)
@given(tasks())
def test_a_step_lies_between_its_longest_lane_and_its_sum(found: list[Task]) -> None:
    """No lane does less than its own work, and no time passes in which nothing works."""
    step = step_ms(run(found))
    assert max(sum(t.ms for t in found if t.lane == lane) for lane in LANES) <= step <= sum(t.ms for t in found)


@settings(max_examples=50)
@given(tasks(), st.integers(0, 11), st.integers(0, 100))
def test_longer_work_never_shortens_a_step(found: list[Task], which: int, longer: int) -> None:
    """Slowing one task down leaves the step as long or makes it longer, at most by as much."""
    slower = [Task(t.lane, t.kind, t.unit, t.ms + (longer if i == which else 0), t.after) for i, t in enumerate(found)]
    assert step_ms(run(found)) <= step_ms(run(slower)) <= step_ms(run(found)) + longer
