"""The growth meter sees what a step leaves behind and names it; garbage is told from growth; a clean step has none."""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fixtures.meters.growth import Growth, measure_growth
from fixtures.ranks import RankPool

pytestmark = pytest.mark.cpu

STEPS = 5
KEPT: list[Any] = [0]
TABLE: dict[int, int] = {0: 0}
NUMBERS = itertools.count(1)


class Node:
    """Something that the collector tracks."""

    def __init__(self, before: Node | None = None) -> None:
        self.before = before


LAST = [Node()]


@functools.cache
def seen(number: int) -> int:
    """The number itself."""
    return number


def clean() -> None:
    """Work that leaves nothing."""
    [Node() for _ in range(3)]
    torch.ones(3).add_(1)


def append() -> None:
    """Leave a number in a list."""
    KEPT.append(next(NUMBERS))


def enter() -> None:
    """Leave a number in a dict."""
    TABLE[next(NUMBERS)] = 1


def chain_up() -> None:
    """Leave an object."""
    LAST[0] = Node(LAST[0])


def cache() -> None:
    """Leave an entry in a cache."""
    seen(next(NUMBERS))


def hold() -> None:
    """Leave a tensor."""
    KEPT.append(torch.ones(2))


def cycle() -> None:
    """Leave two objects in a cycle, one of them a list."""
    node: list[Any] = [Node()]
    node.append(node)


def cycle_of_a_tensor() -> None:
    """Leave a tensor in a cycle."""
    node: list[Any] = [torch.ones(2)]
    node.append(node)


HERE = __name__


def grown_by_a_clean_step() -> Growth:
    """In a fresh process, which has little else in memory: what steps of ``clean`` left."""
    clean()
    return measure_growth(clean, STEPS)


def grown_by_a_step_that_leaves_all() -> Growth:
    """The same of steps that leave one of each kind."""

    def step() -> None:
        for leave in (append, enter, chain_up, cache, hold, cycle, cycle_of_a_tensor):
            leave()

    step()
    return measure_growth(step, STEPS)


def states_of_the_collector() -> tuple[bool, list[bool], bool]:
    """Whether it was on before, in each step, and afterwards."""
    states: list[bool] = []
    before = gc.isenabled()
    measure_growth(lambda: states.append(gc.isenabled()), 2)
    return before, states, gc.isenabled()


def test_a_clean_step_leaves_nothing(solo: Callable[[int], RankPool]) -> None:
    """Objects that die, and work in place: nothing is reported."""
    assert solo(1).run(grown_by_a_clean_step) == [Growth(STEPS)]


def test_what_is_left_is_named(solo: Callable[[int], RankPool]) -> None:
    """Tensors and storages, objects by type, entries by where they are, caches by name, garbage by number: exactly.

    A tensor in a cycle counts as one while nothing was collected, and as garbage.
    """
    (grown,) = solo(1).run(grown_by_a_step_that_leaves_all)
    assert grown == Growth(
        steps=STEPS,
        tensors=2 * STEPS,
        storages=2 * STEPS,
        garbage=4 * STEPS,
        objects={f"{HERE}.Node": STEPS, "torch.Tensor": STEPS, "torch.storage.UntypedStorage": STEPS},
        entries={f"{HERE}.KEPT": 2 * STEPS, f"{HERE}.TABLE": STEPS},
        caches={f"{HERE}.seen": STEPS},
    )


def test_the_collector_is_as_it_was(solo: Callable[[int], RankPool]) -> None:
    """On before, on afterwards, and off in between."""
    assert solo(1).run(states_of_the_collector) == [(True, [False, False], True)]
