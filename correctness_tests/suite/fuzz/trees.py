"""JSON trees taken apart: every place in one, and something else put there."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

Place = tuple[str | int, ...]
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    2**62,
    0.5,
    1e300,
    1e-300,
    "",
    "x",
    "\ud800",
    "\x1b[2J",
    "../x",
    [],
    {},
    [[]],
    {"": None},
)
"""Values that somebody forgot to think of."""


def places(tree: Any, path: Place = ()) -> list[Place]:
    """Every place in a tree, the root first."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def replace_at(tree: Any, place: Place, value: Any) -> None:
    """Put a value at a place below the root."""
    *before, last = place
    for step in before:
        tree = tree[step]
    tree[last] = value


def mutated(text: bytes, draw: random.Random) -> bytes:
    """The same JSON with an odd value at one or two places, or with a place doubled or gone; ValueError for no JSON."""
    tree = json.loads(text)
    for _ in range(draw.randint(1, 2)):
        found = places(tree)[1:]
        if not found:
            raise ValueError("nothing to replace")
        place = draw.choice(found)
        replace_at(tree, place, _at(tree, draw.choice(found)) if draw.random() < 0.3 else deepcopy(draw.choice(ODD)))
    return json.dumps(tree).encode()


def _at(tree: Any, place: Place) -> Any:
    for step in place:
        tree = tree[step]
    return deepcopy(tree)  # a tree that holds itself is none
