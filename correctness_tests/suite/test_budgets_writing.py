"""Budgets are written as one text, a line for everything that can move, and not at all where nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from correctness_tests.suite.synthetic_budgets import MESSAGES, TORCH13, TORCH14, accepted
from fixtures.errors import UsageError
from fixtures.gate.budget_files import budgets_path, load_budgets, render_budgets, same_budget, write_budgets
from fixtures.gate.budgets import BudgetEntry, PastBudget

pytestmark = pytest.mark.cpu

FILE = accepted(TORCH13, TORCH14)
GOOD = render_budgets(FILE)
TRAFFIC = """\
    "mlp/fsdp2/traffic": {
      "figures": {
        "all-gather bfloat16 bytes": 2048,
        "all-gather bfloat16 count": 2,
        "reduce-scatter float32 bytes": 2048,
        "reduce-scatter float32 count": 1
      },
      "events": [
        "forward all-gather bfloat16 1024 blocks.0",
        "backward all-gather bfloat16 1024 blocks.0",
        "backward reduce-scatter float32 2048 blocks.0"
      ],
      "workload": {"num_params": 1000, "tokens_per_batch": 16, "shape_hash": "abc"},
      "loop": 1,
      "provenance": {"source": "measured", "reason": "the first", "date": "2026-11-30", "stack": \
{"torch": "2.13.0+cpu", "python": "3.11.7"}, "commit": "abc1234", "dirty": false},
      "history": []
    }
"""
PARTS = """\
      "parts": {
        "backward calls": {"torch/a.py": 2000},
        "forward calls": {"torch/a.py": 900, "torch/b.py": 100},
        "forward operators": {"aten.add.Tensor": 10, "aten.mm.default": 5}
      },
"""


def test_what_can_move_has_a_line_of_its_own() -> None:
    """Figures, messages and parts first, each item on a line; the rest a line a field; what is empty is left out."""
    assert TRAFFIC in GOOD
    assert PARTS in GOOD


def test_what_was_accepted_before_is_a_line() -> None:
    """Of the history, one line an entry."""
    key = "mlp/fsdp2/memory"
    entry = FILE.entries[key]
    past = [PastBudget(figures={"resident bytes": n}, provenance=entry.provenance) for n in (2, 1)]
    changed = FILE.model_copy(update={"entries": {key: entry.model_copy(update={"history": past})}})
    lines = render_budgets(changed).splitlines()
    at = lines.index('      "history": [')
    assert [line[:40] for line in lines[at + 1 : at + 4]] == [
        '        {"figures": {"resident bytes": 2',
        '        {"figures": {"resident bytes": 1',
        "      ]",
    ]


OTHERWISE: list[tuple[str, Any]] = [
    ("figures", {"resident bytes": 1}),
    ("events", list(MESSAGES)),
    ("parts", {"resident bytes": {"a": 4096}}),
    ("workload", FILE.entries["mlp/fsdp2/memory"].workload.model_copy(update={"num_params": 1001})),
    ("loop", 2),
]


@pytest.mark.parametrize(("field", "value"), OTHERWISE)
def test_an_entry_that_says_something_else_is_another(field: str, value: object) -> None:
    """Other figures, messages, parts, another model or loop: each alone is a change that is written."""
    entry = FILE.entries["mlp/fsdp2/memory"]
    assert not same_budget(entry, entry.model_copy(update={field: value}))


def test_when_and_why_are_no_change() -> None:
    """The same figures under another reason, date or past are the same budget."""
    entry = FILE.entries["mlp/fsdp2/memory"]
    why = entry.provenance.model_copy(update={"reason": "again", "date": "2027-01-01"})
    past = [PastBudget(figures={"resident bytes": 1}, provenance=why)]
    again = BudgetEntry.model_validate({**entry.model_dump(), "provenance": why.model_dump(), "history": past})
    assert same_budget(entry, again)


def test_a_write_is_whole_or_not_at_all(tmp_path: Path) -> None:
    """What changed since it was read, or can't be written, stays as it was, byte for byte."""
    path = budgets_path(tmp_path, FILE.platform.key)
    path.write_text(GOOD.replace('"the first"', '"another session"'))
    before = path.read_bytes()
    with pytest.raises(UsageError, match="changed since this session read it"):
        write_budgets(path.parent, accepted(), replaces=FILE)
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="can't be written"):
        write_budgets(path, accepted(), replaces=None)
    assert [entry.name for entry in path.parent.iterdir() if entry.suffix == ".tmp"] == []


def test_what_was_written_is_what_loads(tmp_path: Path) -> None:
    """Under the platform's name, every entry."""
    path = write_budgets(tmp_path, FILE, replaces=None)
    assert (path.name, load_budgets(path)) == ("cpu-solo-8.budgets.json", FILE)
