"""A broken budget file is one UsageError with the path, the place and a remedy, and is left as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from correctness_tests.suite.broken_files import edited_texts, edited_trees, loads_or_is_refused
from correctness_tests.suite.synthetic_budgets import TORCH13, TORCH14, accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import platforms
from fixtures.gate.budget_files import find_budgets, load_budgets, render_budgets
from fixtures.gate.budgets import BudgetCase, BudgetFile, figures_of

pytestmark = pytest.mark.cpu

NAME = "cpu-solo-8.budgets.json"
FILE = accepted(TORCH13, TORCH14)
GOOD = render_budgets(FILE)
HOST = "mlp/fsdp2/host/torch-2.13-python-3.11"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a good file lies."""
    path = tmp_path / NAME
    path.write_text(GOOD)
    return path


def complaint(path: Path, text: str) -> str:
    """What loading this text says; it must fail and must not touch the file."""
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_budgets(path)
    assert path.read_text() == text
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_good_file_loads(path: Path) -> None:
    """What was rendered reads back, every figure; another folder's file is not found."""
    assert load_budgets(path) == find_budgets(path.parent, "cpu-solo-8") == FILE
    assert find_budgets(path.parent, "cpu-solo-16") is None


def test_remedy_can_be_pasted(path: Path) -> None:
    """The complaint ends with commands for this very file."""
    said = complaint(path, "{")
    assert f"git checkout -- {path}" in said
    assert said.endswith('pytest perf_tests -m cpu --update-baselines --reason "..."')


def test_it_is_no_baseline_of_ratios(path: Path) -> None:
    """The gate of ratios passes it over."""
    assert platforms(path.parent) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"format": 1,', '"format": 2,', "format 2 was written by a newer Shardgate"),
        ('"format": 1,', '"format": true,', "must be a number"),
        ('"resident bytes": 4096', '"resident bytes": 4096.5', "valid integer"),
        ('"resident bytes": 4096', '"resident bytes": NaN', "NaN is not a number"),
        ('"resident bytes": 4096', '"resident bytes": -1', "greater than or equal"),
        ('"resident bytes": 4096', '"resident bytes": 1, "resident bytes": 4096', "appears twice"),
        ('"forward calls": 1000', '"forward calls": 1001', "is not the sum of its parts, 1000"),
        ('"all-gather bfloat16 count": 2', '"all-gather bfloat16 count": 3', "not the sums of the events"),
        ("forward all-gather bfloat16 1024", "forward all-gather 1024", "is no event"),
        ('mlp/fsdp2/memory"', 'mlp/fsdp2/memroy"', "entry 'mlp/fsdp2/memroy'"),
        ('mlp/fsdp2/memory"', 'mlp/fsdp2/memory/torch-2.13-python-3.11"', "is the same on every stack"),
        (f'"{HOST}"', '"mlp/fsdp2/host"', "needs a stack"),
        (f'"{HOST}"', '"mlp/fsdp2/host/torch-2.12-python-3.11"', "its provenance says torch 2.13.0"),
        (f'"{HOST}"', '"mlp/fsdp2/host/torch-2.013-python-3.11"', "is written 'torch-2.13-python-3.11'"),
        ('"reason": "the first"', '"reason": " "', "reason"),
        ('"loop": 1', '"loop": 1, "surprise": 1', "surprise"),
        ('"world_size": 8', '"world_size": 4', "must be called cpu-solo-4.budgets.json"),
    ],
)
def test_a_fault_is_named(path: Path, old: str, new: str, words: str) -> None:
    """Each edit of a good file is refused with words that lead to it."""
    assert old in GOOD
    assert words in complaint(path, GOOD.replace(old, new, 1))


@given(raw=edited_texts(GOOD))
def test_any_edit_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Any cut and any text typed anywhere: a sound file or a UsageError, never another exception, never a change."""
    loads_or_is_refused(tmp_path_factory.getbasetemp() / NAME, raw, load_budgets, assert_sound)


@given(raw=edited_trees(GOOD, numbers=[2**63], keys=["figures", "format", "x"]))
def test_any_value_anywhere_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Any JSON in place of any value, or beside it: a sound file or a UsageError, and the file as it was."""
    loads_or_is_refused(tmp_path_factory.getbasetemp() / NAME, raw, load_budgets, assert_sound)


def assert_sound(file: BudgetFile) -> None:
    """What loads can be gated by and written again: whole numbers that add up, and its own text loads."""
    assert file.platform.key == "cpu-solo-8"
    for key, entry in file.entries.items():
        case, stack = BudgetCase.parse(key)
        assert (case.key(stack) if stack else case.id) == key
        assert all(isinstance(value, int) and value >= 0 for value in entry.figures.values())
        assert all(entry.figures[name] == sum(parts.values()) for name, parts in entry.parts.items())
        assert not entry.events or entry.figures == figures_of(entry.events)
    again = BudgetFile.model_validate(json.loads(render_budgets(file)), strict=True)
    assert render_budgets(again) == render_budgets(file)
