"""Data flows one way through ``fixtures/``: a module imports only from its row of CONTRIBUTING.md and those above."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"


@functools.cache
def rows() -> dict[str, int]:
    """The row of the table that names a module, or a package, directly below ``fixtures/``."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    first_cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `fixtures/")]
    return {
        name: row
        for row, cell in enumerate(first_cells)
        for name in re.findall(r"`(?:fixtures/)?(\w+)(?:\.py|/)`", cell)
    }


def unit_of(path: Path) -> str:
    """The module or package directly below ``fixtures/`` that a file belongs to."""
    return path.relative_to(FIXTURES).parts[0].removesuffix(".py")


def imports(source: str) -> Iterator[str]:
    """What a module's source imports from below ``fixtures/``, in its functions too; not for the type checker alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "fixtures":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fixtures."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("fixtures."))


def imports_from_below(unit: str, source: str) -> list[str]:
    """What it imports from a row further down than its own, or from a module that the table does not know."""
    row = rows()
    return sorted({name for name in imports(source) if row.get(name, len(row)) > row[unit]})


def modules() -> list[Path]:
    """Every module of ``fixtures/``."""
    return sorted(path for path in FIXTURES.rglob("*.py") if path != FIXTURES / "__init__.py")


def test_every_module_is_in_the_table() -> None:
    """A new module has a row, and no row names one that is gone."""
    assert {unit_of(path) for path in modules()} == set(rows())


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(FIXTURES)))
def test_nothing_is_imported_from_below(path: Path) -> None:
    """Each import leads to the module's own row or up: what is judged, say, never reaches for what launches it."""
    below = imports_from_below(unit_of(path), path.read_text(encoding="utf-8"))
    assert not below, f"{path.relative_to(ROOT)} imports from below its row of CONTRIBUTING's table: {below}"


@pytest.mark.parametrize(
    ("source", "below"),
    [
        ("from fixtures.session.job import Job", ["session"]),
        ("def late():\n    from fixtures import training, gate", ["training"]),
        ("import fixtures.plugin", ["plugin"]),
        ("from fixtures.unheard_of import it", ["unheard_of"]),
        ("if TYPE_CHECKING:\n    from fixtures.session.job import Job", []),
        ("from fixtures.measurements import Stack", []),
    ],
)
def test_a_step_back_is_seen(source: str, below: list[str]) -> None:
    """Imports in any form and place are found; what only the type checker reads is none."""
    assert imports_from_below("gate", source) == below
