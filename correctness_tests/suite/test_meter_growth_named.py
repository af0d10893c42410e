"""Property: the growth meter counts each kind of thing that a step leaves, and names it by what refers to it.

In this process, its heap frozen: the collector, and so the meter, sees only what is made afterwards.
"""

from __future__ import annotations

import functools
import gc
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from fixtures.meters.growth import Growth, measure_growth
from fixtures.platforms import playing_rank

pytestmark = pytest.mark.cpu

STEPS = 3


@pytest.fixture(autouse=True)
def _small_heap() -> Iterator[None]:
    """Hide what is there already; as it was, afterwards."""
    gc.freeze()
    yield
    gc.unfreeze()


class Box:
    """Holds a container, and nothing else."""

    __slots__ = ("kept",)

    def __init__(self, kept: Any) -> None:
        self.kept = kept


class Bag(Box):
    """Another type that does."""

    __slots__ = ()


class Case(Box):
    """And a third."""

    __slots__ = ()


class Drum(Box):
    """A fourth."""

    __slots__ = ()


def module(**names: object) -> ModuleType:
    """A module of these globals, known to nobody else."""
    made = ModuleType("grown")
    vars(made).update(names)
    return made


def numbered(leave: Callable[[int], object]) -> Callable[[], None]:
    """A step that leaves another number each time."""
    number = iter(range(1000, 2000))

    def step() -> None:
        leave(next(number))

    return step


def test_a_step_that_leaves_nothing() -> None:
    """Objects that die at once, and containers that only shrink."""
    home = module(KEPT=list(range(100)))
    leaver = module(TABLE={n: n for n in range(100)})

    def step() -> None:
        Box([]).kept.append(home.KEPT.pop())
        leaver.TABLE.popitem()

    assert measure_growth(step, STEPS) == Growth(STEPS)


@pytest.mark.parametrize(
    ("container", "leave"),
    [
        ([0], lambda kept, n: kept.append(n)),
        ({0: 0}, lambda kept, n: kept.update({n: n})),
        ({0}, lambda kept, n: kept.add(n)),
        (OrderedDict({0: 0}), lambda kept, n: kept.update({n: n})),
        (defaultdict(int, {0: 0}), lambda kept, n: kept[n]),
        (deque([0]), lambda kept, n: kept.append(n)),
        (Counter([0]), lambda kept, n: kept.update([n])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_entries_are_named_by_module_and_global(container: Any, leave: Callable[[Any, int], object]) -> None:
    """Of each kind of container, mere numbers too; beside a global that holds something else."""
    kept = container.copy()  # made under the frozen heap
    leave(container.copy(), 0)  # at its first use Python notes that a list is no mapping
    home = module(OTHER=[1, 2], KEPT=kept, MORE={})
    grown = measure_growth(numbered(lambda n: leave(home.KEPT, n)), STEPS)
    assert grown == Growth(STEPS, entries={"grown.KEPT": STEPS})


def test_globals_that_appear_are_the_modules() -> None:
    """A step that makes another global each time."""
    home = module(KEPT=[])
    grown = measure_growth(numbered(lambda n: setattr(home, f"global{n}", n)), STEPS)
    assert grown == Growth(STEPS, entries={"globals of grown": STEPS})


def held_by(*types: Callable[[Any], Any]) -> list[Any]:
    """Holders of one list, to which nothing else refers."""
    kept = [0]
    return [holder(kept) for holder in types]


def into_the_first(holders: list[Any]) -> Callable[[], None]:
    """A step that leaves a number in the list of the first holder."""
    return numbered(lambda n: (holders[0].kept if isinstance(holders[0], Box) else holders[0][0]).append(n))


@pytest.mark.parametrize(
    ("types", "name"),
    [
        ((Box,), "a list held by Box"),
        ((Case, Bag), "a list held by Bag, Case"),
        ((Drum, Case, Bag, Box), "a list held by Bag, Box, Case"),
        ((lambda kept: [kept],), "a list held by nothing that can be told"),
        ((Box, lambda kept: [kept]), "a list held by Box"),
    ],
    ids=["one", "two", "four", "a list", "one and a list"],
)
def test_entries_are_named_by_the_types_that_hold_them(types: tuple[Callable[[Any], Any], ...], name: str) -> None:
    """At most three, in alphabetical order; another list tells nothing."""
    assert measure_growth(into_the_first(held_by(*types)), STEPS).entries == {name: STEPS}


def test_containers_of_one_name_are_added() -> None:
    """Two lists, each held by a box: one line, of both."""
    boxes = [Box([0]), Box([0])]

    def leave(n: int) -> None:
        for box in boxes:
            box.kept.append(n)

    assert measure_growth(numbered(leave), STEPS).entries == {"a list held by Box": 2 * STEPS}


def test_a_new_container_is_an_object_and_not_an_entry() -> None:
    """The list that was there has an entry more, the one in it is an object more."""
    home = module(KEPT=[])
    grown = measure_growth(numbered(lambda n: home.KEPT.append([n, n])), STEPS)
    assert grown == Growth(STEPS, objects={"builtins.list": STEPS}, entries={"grown.KEPT": STEPS})


def test_objects_are_counted_by_type() -> None:
    """With the module of the type, nested or not; two of one type a step are two."""
    home = module(KEPT=[])
    grown = measure_growth(numbered(lambda n: home.KEPT.extend([Box(n), Box(n), Bag(n)])), STEPS)
    assert grown.objects == {f"{__name__}.Box": 2 * STEPS, f"{__name__}.Bag": STEPS}


def test_a_caches_entries_are_its_own() -> None:
    """By function, and not as entries of the dict inside; two caches of one name are added."""

    def seen(number: int) -> int:
        return number

    caches = [functools.lru_cache(seen), functools.lru_cache(seen)]
    caches[0](1)
    caches[1](1)
    grown = measure_growth(numbered(lambda n: [cache(n) for cache in caches]), STEPS)
    assert grown == Growth(STEPS, caches={f"{__name__}.{seen.__qualname__}": 2 * STEPS})


def test_what_is_there_for_the_first_time_counts_from_nothing() -> None:
    """A cache that a step makes, with one entry; one object, in the first step alone, of a type that had none."""
    home = module(KEPT=[])
    firsts = iter([Bag])

    def seen(number: int) -> int:
        return number

    def leave(n: int) -> None:
        cache = functools.lru_cache(seen)
        cache(n)
        home.KEPT.append([cache, *(kind(n) for kind in firsts)])

    grown = measure_growth(numbered(leave), STEPS)
    assert grown.caches == {f"{__name__}.{seen.__qualname__}": STEPS}
    assert grown.objects[f"{__name__}.Bag"] == 1


def test_a_container_to_which_nothing_known_refers_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the globals of this module are hidden, and the list is their own."""
    monkeypatch.setitem(globals(), "LATE", [0])
    grown = measure_growth(numbered(lambda n: globals()["LATE"].append(n)), STEPS)
    assert grown.entries == {"a list held by nothing that can be told": STEPS}


def test_garbage_is_what_a_collection_frees() -> None:
    """A list that holds itself by way of a box, two objects a step, is no growth."""

    def step() -> None:
        node: list[Any] = []
        node.append(Box(node))

    assert measure_growth(step, STEPS) == Growth(STEPS, garbage=2 * STEPS)


def test_tensors_and_storages_are_counted_with_gradients() -> None:
    """A tensor and its gradient, of which nobody made an object: one tensor and two storages a step."""
    home = module(KEPT=[])

    def step() -> None:
        weight = torch.ones(2, requires_grad=True)
        weight.sum().backward()  # type: ignore[no-untyped-call]
        home.KEPT.append(weight)

    step()
    grown = measure_growth(step, STEPS)
    assert (grown.tensors, grown.storages) == (STEPS, 2 * STEPS)


def test_a_wrapper_counts_by_what_it_wraps() -> None:
    """Its local tensor has a storage, a DTensor itself has none: one tensor more a step than storages."""
    home = module(KEPT=[])
    with playing_rank(0, 2):
        mesh = init_device_mesh("cpu", (2,))

        def step() -> None:
            home.KEPT.append(DTensor.from_local(torch.ones(2), mesh, [Shard(0)]))

        step()
        grown = measure_growth(step, STEPS)
    assert grown.storages >= STEPS
    assert grown.tensors - grown.storages == STEPS


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_in_steps_and_as_before_afterwards(enabled: bool) -> None:
    """Also where a step fails."""
    states: list[bool] = []

    def step() -> None:
        states.append(gc.isenabled())
        raise ZeroDivisionError

    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError):
            measure_growth(step)
        after = gc.isenabled()
    finally:
        (gc.enable if was else gc.disable)()
    assert (states, after) == ([False], enabled)


def test_twenty_steps_are_taken_unless_it_is_said() -> None:
    """As many as the growth tells of."""
    taken: list[int] = []
    assert measure_growth(lambda: taken.append(0) if len(taken) < 50 else None).steps == len(taken) == 20
