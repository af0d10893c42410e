"""Broken files for the tests of loaders: any edit of a good text, any value anywhere in its tree."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from correctness_tests.suite.fuzz.trees import Place, places, replace_at
from fixtures.errors import UsageError

FILE = TypeVar("FILE")


def edited_texts(good: str) -> st.SearchStrategy[bytes]:
    """The text after any cut of up to 40 characters, with any text typed in its place."""

    def edited(at: int, cut: int, typed: str) -> bytes:
        return (good[:at] + typed + good[at + cut :]).encode("utf-8", "surrogatepass")

    return st.builds(edited, st.integers(0, len(good) - 1), st.integers(0, 40), st.text(max_size=8))


def values(numbers: Sequence[float] = ()) -> st.SearchStrategy[Any]:
    """Any JSON, these numbers often."""
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    return st.recursive(
        plain | st.sampled_from([0, -1, *numbers]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    )


def edited_trees(good: str, numbers: Sequence[float], keys: Sequence[str]) -> st.SearchStrategy[bytes]:
    """The file with any JSON (these numbers often) in place of any value, or beside it under one of these keys."""

    def edited(place: Place, key: str | None, value: Any) -> bytes:
        tree = json.loads(good)
        *before, last = place
        replace_at(tree, (*before, last if key is None or isinstance(last, int) else key), value)
        return json.dumps(tree).encode()

    somewhere = st.sampled_from(places(json.loads(good))[1:])
    return st.builds(edited, somewhere, st.none() | st.sampled_from(keys), values(numbers))


def loads_or_is_refused(path: Path, raw: bytes, load: Callable[[Path], FILE], check: Callable[[FILE], Any]) -> None:
    """Loading is sound, as ``check`` has it, or a UsageError, never another exception; the file stays as it was."""
    path.write_bytes(raw)
    with contextlib.suppress(UsageError):
        check(load(path))
    assert path.read_bytes() == raw
