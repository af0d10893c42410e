"""How files of a platform are called and laid out: a line a field, sorted, ASCII, so that a diff shows what moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from correctness_tests.suite.synthetic import CPU4
from fixtures.errors import UsageError
from fixtures.gate.entries import BaselineFile
from fixtures.gate.shelves import blocks_text, entries_text, file_text, inline, lines_text, path_of, tree_of

pytestmark = pytest.mark.cpu


def test_file_is_called_by_its_platform() -> None:
    """The key and what kind of file it is; letters, digits, dots, dashes, 200 of them at most."""
    assert path_of(Path("a"), "cpu-gloo-4") == Path("a/cpu-gloo-4.json")
    assert path_of(Path("a"), "x" * 200, ".budgets.json") == Path(f"a/{'x' * 200}.budgets.json")


@pytest.mark.parametrize("key", ["", "CPU", "a/b", "-a", "a b", "a\n", "x" * 201])
def test_key_that_is_no_name_is_told(key: str) -> None:
    """Cut where it would fill the screen."""
    with pytest.raises(UsageError) as caught:
        path_of(Path("a"), key)
    said = f"the platform {key[:80]!r} can't name a baseline file: letters, digits and dashes can."
    assert str(caught.value) == said


def test_what_is_not_known_is_not_stored() -> None:
    """Nothing that is None, and of the platform nothing that is empty."""
    assert tree_of(BaselineFile(platform=CPU4, entries={})) == {
        "format": 2,
        "platform": {"device_type": "cpu", "backend": "gloo", "world_size": 4},
        "match": "exact",
        "entries": {},
        "deleted": [],
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [({"b": [1, 2.5], "a": None}, '{"b": [1, 2.5], "a": null}'), ("\u00e9\u2028", '"\\u00e9\\u2028"')],
)
def test_value_is_one_line_of_ascii(value: object, text: str) -> None:
    """In the order in which its names were given."""
    assert inline(value) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_json_has_not_is_refused(number: float) -> None:
    """No file holds a NaN or an infinity, which other readers can't read."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        inline([number])


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([], "[]"),
        ({}, "{}"),
        (["b", "a"], '[\n    "b",\n    "a"\n  ]'),
        ({"b": 2, "a": [1]}, '{\n    "a": [1],\n    "b": 2\n  }'),
    ],
)
def test_items_have_a_line_each(items: Any, text: str) -> None:
    """A list's as they come, an object's by name; the closing bracket stands two columns to the left of them."""
    assert lines_text(items, indent=4) == text


def test_entries_are_blocks_in_order() -> None:
    """Sorted by key, each a block of the lines that it is made of; of none it is an empty object."""
    assert blocks_text({"b": 2, "a": 1}, lambda entry: [f'      "x": {entry}', '      "y": 0']).splitlines() == [
        "{",
        '    "a": {',
        '      "x": 1,',
        '      "y": 0',
        "    },",
        '    "b": {',
        '      "x": 2,',
        '      "y": 0',
        "    }",
        "  }",
    ]
    assert blocks_text({}, lambda entry: []) == "{}"


def test_file_ends_in_what_is_long() -> None:
    """Fields in their order, then those that are written already; an empty text leaves its field out."""
    text = file_text({"format": 2, "entries": {"x": 1}, "match": "exact", "deleted": []}, {"entries": "{}"})
    assert text == '{\n  "format": 2,\n  "match": "exact",\n  "deleted": [],\n  "entries": {}\n}\n'
    assert file_text({"format": 2, "deleted": []}, {"deleted": ""}) == '{\n  "format": 2\n}\n'


def test_deleted_entries_come_last() -> None:
    """A line each, and no field where nothing was ever deleted."""
    tree: dict[str, Any] = {"format": 2, "entries": {"a": 1}, "deleted": [{"case": "b"}, {"case": "c"}]}
    text = entries_text(tree, lambda entry: [f'      "x": {entry}'])
    assert text.splitlines()[-5:] == ['  "deleted": [', '    {"case": "b"},', '    {"case": "c"}', "  ]", "}"]
    assert json.loads(text) == {**tree, "entries": {"a": {"x": 1}}}
    assert "deleted" not in entries_text({**tree, "deleted": []}, lambda entry: [])
