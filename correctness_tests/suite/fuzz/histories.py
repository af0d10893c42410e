"""Histories under fuzz: SQLite files of any bytes, and tables of the suite's own with any rows."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

from correctness_tests.suite.nights import night
from fixtures.errors import UsageError
from fixtures.history import append_night, read_nights

TABLES = ("nights", "comparisons")
NOT_ROWS = (ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError, sqlite3.Error)
"""What becomes of JSON that no tables can be filled with."""


def kept_again(folder: Path, data: bytes) -> bool:
    """A history that is read is written again as the same; bytes that begin like JSON are rows of its tables."""
    path, again = folder / "history.sqlite", folder / "again.sqlite"
    for old in (path, again):
        old.unlink(missing_ok=True)
    if data[:1] == b"{":
        _fill(path, data)
    else:
        path.write_bytes(data)
    nights = read_nights(path, patched=True)[:3]
    for kept in nights:
        append_night(again, kept)
    found = read_nights(again, patched=True) if nights else []
    assert {kept.id: kept for kept in found} == {kept.id: kept for kept in nights}
    return True


def _fill(path: Path, data: bytes) -> None:
    append_night(path, night(0))
    try:
        tables = json.loads(data)
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            for name in reversed(TABLES):
                db.execute(f"DELETE FROM {name}")
            for name in TABLES:
                for row in tables[name]:
                    columns = [column for column in row if column.isidentifier()]
                    holes = ", ".join("?" * len(columns))
                    values = [row[column] for column in columns]
                    db.execute(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({holes})", values)
    except NOT_ROWS as error:
        raise UsageError("no rows") from error


def histories(folder: Path) -> tuple[bytes, bytes]:
    """A good file of small pages, and its rows as JSON."""
    path = folder / "seed.sqlite"
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
    first = night(0)
    append_night(path, first.model_copy(update={"comparisons": first.comparisons[:1]}))
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        rows = {name: [dict(row) for row in db.execute(f"SELECT * FROM {name}")] for name in TABLES}
    return path.read_bytes(), json.dumps(rows).encode()
