"""A history that somebody made to do harm is one UsageError: none of its SQL is run, and no room is given to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from correctness_tests.suite.fuzz.__main__ import FINDINGS
from correctness_tests.suite.nights import night
from fixtures.errors import UsageError
from fixtures.history import append_night, read_nights, schema, store

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(60)]

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"
"""A query without end."""

NIGHTS_VIEW = f"CREATE VIEW nights AS {ENDLESS} AS id, '2026-01-01' AS date, 'p' AS platform FROM n"
SQL: dict[str, tuple[tuple[str, ...], str]] = {
    "a trigger that deletes": (
        ("CREATE TRIGGER gone AFTER INSERT ON nights BEGIN DELETE FROM nights; END",),
        "holds the trigger 'gone'",
    ),
    "a trigger without end": (
        (
            "CREATE TABLE more (i)",
            f"CREATE TRIGGER fill BEFORE DELETE ON nights BEGIN INSERT INTO more {ENDLESS} FROM n; END",
        ),
        "holds the table 'more'",
    ),
    "a view without end": (("DROP TABLE nights", NIGHTS_VIEW), "lacks the index 'nights_by_date'"),
    "a view of rows without end": (
        ("DROP TABLE comparisons", f"CREATE VIEW comparisons AS {ENDLESS} AS case_id, i AS night FROM n"),
        "lacks the table 'comparisons'",
    ),
    "a column that computes": (
        ("ALTER TABLE nights ADD COLUMN much TEXT GENERATED ALWAYS AS (printf('%.*c', 900000, 'x'))",),
        "has changed the table 'nights'",
    ),
    "an index that computes": (("CREATE INDEX slow ON nights (hex(zeroblob(400000)))",), "holds the index 'slow'"),
    "another table of that name": (
        ("DROP TABLE comparisons", "CREATE TABLE comparisons (night, case_id)"),
        "has changed the table 'comparisons'",
    ),
    "tables without number": (
        tuple(f"CREATE TABLE t{i} (x)" for i in range(200)),
        "holds the table 't0'",
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A history of one night."""
    path = tmp_path / "history.sqlite"
    append_night(path, night(0))
    return path


def change(path: Path, *statements: str) -> None:
    """What somebody else does to it."""
    db = sqlite3.connect(path)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


@pytest.mark.parametrize("kind", SQL)
def test_no_sql_of_the_file_is_run(path: Path, kind: str) -> None:
    """Triggers, views in a table's place and computed columns: named, and the file is left as it is."""
    statements, fault = SQL[kind]
    change(path, *statements)
    before = path.read_bytes()
    for attempt in (lambda: read_nights(path), lambda: append_night(path, night(1))):
        with pytest.raises(UsageError, match=fault) as caught:
            attempt()
        assert str(caught.value).startswith(f"history {path}: ")
        assert len(str(caught.value)) < 600
    assert path.read_bytes() == before


def test_a_view_of_ones_own_does_no_harm(path: Path) -> None:
    """A view that a reader made for himself is not asked, whatever it says, and keeps nobody from his history."""
    change(path, f"CREATE VIEW mine AS {ENDLESS} FROM n", "DROP VIEW history", "ANALYZE")
    append_night(path, night(1))
    assert read_nights(path) == [night(0), night(1)]


def test_every_version_is_known_by_its_tables(path: Path) -> None:
    """The tables that a file must have are those that its version's steps make."""
    assert {name for _, name, _ in schema.objects(schema.STEPS)} == {"nights", "comparisons", "nights_by_date"}


def test_a_file_too_large_is_not_opened(path: Path) -> None:
    """A gigabyte that takes no room on the disk is refused by its size."""
    with path.open("r+b") as file:
        file.truncate(10**9)
    with pytest.raises(UsageError, match="has 1000000000 bytes, more than the 268435456 of any history"):
        read_nights(path)


def test_a_size_that_nothing_can_have_is_told_in_words() -> None:
    """A damaged page asks for more memory than there is: MemoryError without a text, to Python."""
    with pytest.raises(UsageError, match=r"can't be read: \w.*\. Name another file"):
        read_nights(FINDINGS / "history-02ee6d60e28b")


@pytest.mark.parametrize(("bound", "what"), [("MAX_NIGHTS", "nights"), ("MAX_ROWS", "comparisons")])
def test_more_rows_than_can_be_are_not_read(path: Path, bound: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops where there are more nights, or more of their comparisons, than any history has."""
    append_night(path, night(1))
    monkeypatch.setattr(store, bound, 1)
    with pytest.raises(UsageError, match=f"holds more than 1 {what}"):
        read_nights(path)
    assert what != "nights" or len(read_nights(path, last=1)) == 1


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\x1b[2Jb", "=cmd|' /C calc'!A0", "a\u202eb"])
def test_a_name_is_read_as_text_or_refused(path: Path, name: str) -> None:
    """A name in a row is what any name may be: no control characters; the rest is escaped where it is shown."""
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE nights SET platform = ?", [name])
    db.close()
    if name.isprintable():
        assert read_nights(path)[0].platform == name
    else:
        with pytest.raises(UsageError, match="platform: String should match pattern"):
            read_nights(path)
