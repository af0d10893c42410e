"""A broken baseline is one UsageError with the path, the place and a remedy, and is left as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from correctness_tests.suite.broken_files import edited_texts, edited_trees, loads_or_is_refused
from correctness_tests.suite.synthetic import accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import MAX_BYTES, BaselineFile, load_baseline, parse, render
from fixtures.gate.cases import Case

pytestmark = pytest.mark.cpu

NAME = "cpu-gloo-4.json"
FILE = accepted()
GOOD = render(FILE)
CASE = "gpt2-rehearsal/fsdp2:ddp/resident"
LINE = GOOD[: GOOD.index('"ratio"', GOOD.index(CASE))].count("\n") + 1
"""Where this case's ratio lies."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a good baseline lies."""
    path = tmp_path / NAME
    path.write_text(GOOD)
    return path


def complaint(path: Path, text: str) -> str:
    """What loading this text says; it must fail and must not touch the file."""
    path.write_text(text)
    before = path.read_bytes()
    with pytest.raises(UsageError) as caught:
        load_baseline(path)
    assert path.read_bytes() == before
    assert str(path) in str(caught.value)
    assert "The file was left as it is." in str(caught.value)
    return str(caught.value)


def edited(edit: Callable[[dict[str, Any]], Any]) -> str:
    """The good file after an edit of its tree."""
    tree = json.loads(GOOD)
    edit(tree)
    return json.dumps(tree, indent=1)


def test_good_file_loads(path: Path) -> None:
    """What was rendered reads back; the figures agree to 6 significant digits."""
    assert render(load_baseline(path)) == GOOD


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"format": 2,', '"format": 2', ["line 3 column 3", "broken JSON"]),
        ('"ratio": 0.166667', '"ratio": NaN', ["NaN is not a number"]),
        ('"ratio": 0.166667', '"ratio": -Infinity', ["-Infinity is not a number"]),
        ('"ratio": 0.166667', '"ratio": 1e999', ["1e999 is too large"]),
        ('"ratio": 0.166667', f'"ratio": {"9" * 5000}', ["beyond 64 bits"]),
        ('"ratio": 0.166667', '"ratio": "0.166667"', [f"{CASE} > ratio (line {LINE})", "valid number"]),
        ('"ratio": 0.166667', '"ratio": true', [f"{CASE} > ratio (line {LINE})", "valid number"]),
        ('"ratio": 0.166667', '"ratio": -0.166667', [f"{CASE} > ratio (line {LINE})", "greater than"]),
        ('"ratio": 0.166667', '"ratio": 0.166667, "ratio": 0.2', ["'ratio' appears twice"]),
        ('"ratio": 0.166667', '"ratoi": 0.166667', [CASE, "Field required"]),
        ('"ratio": 0.166667', '"ratio": 0.166667, "ratoi": 1', [f"{CASE} > ratoi", "Extra inputs"]),
        ('"ratio": 0.166667', '"ratio": 0.9', ["lies outside its interval"]),
        ('"low": 0.166667', '"lo": 0.166667', [CASE]),
        ('{"value": 2.0, "unit": "GiB"}', '{"value": 2.0, "unit": "GB"}', ["'GiB'"]),
        ('{"value": 2.0, "unit": "GiB"}', '{"value": 2.0, "unit": "MiB"}', ["contradicts the arms' figures"]),
        (CASE, "gpt2-rehearsal/resident", ["gpt2-rehearsal/resident", "is no case"]),
        (CASE, "gpt2-rehearsal/fsdp2:ddp/residnet", ["no metric is called 'residnet'"]),
        ('"world_size": 4', '"world_size": 8', ["key is cpu-gloo-8", "must be called cpu-gloo-8.json"]),
        ('"match": "exact"', '"match": "prefix"', ["needs a platform with a machine"]),
    ],
)
def test_fault_is_named(path: Path, old: str, new: str, words: list[str]) -> None:
    """Each edit of a good file is refused with words that lead to it."""
    at = GOOD.index(f'"{CASE}"') if old.startswith(('"ratio', '"low', '{"value')) else 0
    assert old in GOOD[at:]
    said = complaint(path, GOOD[:at] + GOOD[at:].replace(old, new, 1))
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "broken JSON"),
        ("null", "valid dictionary"),
        ("[]", "valid dictionary"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format": 0}', "format"),
        ('{"format": true}', "format"),
        ('{"format": "1"}', "format"),
    ],
    ids=["empty", "null", "list", "deep", "format 0", "format true", "format text"],
)
def test_other_content_is_refused(path: Path, text: str, words: str) -> None:
    """A file that is something else altogether is refused."""
    assert words in complaint(path, text)


def test_unit_of_another_metric_is_refused(path: Path) -> None:
    """Bytes in milliseconds are refused, with the entry."""

    def muddle(tree: dict[str, Any]) -> None:
        for arm in ("numerator", "denominator"):
            tree["entries"][CASE][arm]["unit"] = "ms"

    assert f"entry '{CASE}': ms is no unit of resident" in complaint(path, edited(muddle))


def test_newer_format_is_named(path: Path) -> None:
    """A file of a later format says which, and to update."""
    said = complaint(path, edited(lambda tree: tree.update(format=3, surprise=[])))
    assert "format 3 was written by a newer Shardgate" in said


def test_remedy_can_be_pasted(path: Path) -> None:
    """The complaint ends with a command for this very file."""
    assert f"git checkout -- {path}" in complaint(path, "{")


def test_large_file_is_refused_unread(path: Path) -> None:
    """A file beyond the bound is refused by its size."""
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match=f"{MAX_BYTES + 1} bytes, more than"):
        load_baseline(path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["absent", "folder", "pipe", "latin-1"])
def test_what_is_no_text_file_is_refused(path: Path, kind: str) -> None:
    """A missing file, a folder, a pipe that nobody writes to, another encoding: refused at once."""
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "latin-1":
        path.write_bytes("{é}".encode("latin-1"))
    with pytest.raises(UsageError, match=str(path)):
        load_baseline(path)


def test_too_many_entries_are_refused(path: Path) -> None:
    """More entries than the bound are refused."""

    def grow(tree: dict[str, Any]) -> None:
        entry = tree["entries"].pop(CASE)
        tree["entries"] = {f"w{i}/fsdp2:ddp/resident": entry for i in range(5001)}

    assert "at most 5000" in complaint(path, edited(grow))


@given(raw=edited_texts(GOOD))
def test_any_edit_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Any cut and any text typed anywhere: a valid file or a UsageError, never another exception, never a change."""
    loads_or_is_refused(tmp_path_factory.getbasetemp() / NAME, raw, load_baseline, assert_sound)


@given(raw=edited_trees(GOOD, numbers=[1e-9, 1e9], keys=["ratio", "format", "x"]))
def test_any_value_anywhere_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Any JSON in place of any value, or beside it: a sound file or a UsageError, and the file as it was."""
    loads_or_is_refused(tmp_path_factory.getbasetemp() / NAME, raw, load_baseline, assert_sound)


def assert_sound(file: BaselineFile) -> None:
    """What loads can be gated by and written again: positive ratios in their intervals, and its own text loads."""
    assert file.platform.key == "cpu-gloo-4"
    for case_id, entry in file.entries.items():
        assert Case.parse(case_id).id == case_id
        for accepted_once in (entry, *entry.history):
            assert 0 < (accepted_once.low or accepted_once.ratio) <= accepted_once.ratio < 1e9
            assert accepted_once.ratio <= (accepted_once.high or accepted_once.ratio) < 1e9
    assert render(parse(Path(NAME), render(file))) == render(file)
