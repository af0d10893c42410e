"""Property: the history keeps which code of a user's own model a night measured, in a file of the first version too."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from correctness_tests.suite.nights import drifting, night
from correctness_tests.suite.test_history_changes import logs
from correctness_tests.suite.test_user_code import CLEAN, DIRTY, measured
from fixtures.gate.comparisons import compare
from fixtures.history import Night, append_night, read_nights, schema, store
from fixtures.history.changes import changes, sentence
from fixtures.measurements import UserCode

pytestmark = pytest.mark.cpu

BARE = UserCode(module="my_models")


def first_version(path: Path) -> None:
    """A file as the first Shardgate that kept a history left it, with one night."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for statement in schema.STEPS[0]:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        row = store._night_row(night(0))
        store._insert(db, "nights", {name: row[name] for name in row if not name.startswith("user_")})
        for comparison in night(0).comparisons:
            store._insert(db, "comparisons", store._row(night(0).id, comparison))


@pytest.mark.parametrize("code", [CLEAN, DIRTY, BARE, None])
def test_the_code_of_a_model_comes_back(tmp_path: Path, code: UserCode | None) -> None:
    """Module, repository, commit and changes; a module that no repository keeps; none for the suite's own models."""
    kept = night(0).model_copy(update={"user_code": code})
    append_night(tmp_path / "history.sqlite", kept)
    assert read_nights(tmp_path / "history.sqlite") == [kept]


def test_a_night_has_the_code_that_its_launches_had() -> None:
    """From the measurements' provenance, dirty where any launch was."""
    assert Night.of(compare(measured(DIRTY, CLEAN), None, gate_times=True)).user_code == DIRTY


def test_a_file_of_the_first_version_is_read_and_brought_up_to_date(tmp_path: Path) -> None:
    """It is read as it is; the next night brings the columns, which the view has too, and the first keeps its place."""
    path = tmp_path / "history.sqlite"
    first_version(path)
    before = path.read_bytes()
    assert read_nights(path) == [night(0)]
    assert path.read_bytes() == before
    later = night(1).model_copy(update={"user_code": DIRTY})
    append_night(path, later)
    assert read_nights(path) == [night(0), later]
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        told = db.execute(
            "SELECT DISTINCT user_module, user_repository, user_commit, user_dirty FROM history"
        ).fetchall()
    assert told == [(None, None, None, None), ("my_models", "ours", "feedfacecafe", 1)]


def test_a_shift_names_the_commit_of_the_model() -> None:
    """Where the suite's commit stayed and the model's did not, it is the model's that is told; of one module only."""
    nights = [each.model_copy(update={"commit": "abc"}) for each in drifting(logs((20, 0.0), (10, 0.05)))]
    codes = [CLEAN if number < 20 else CLEAN.model_copy(update={"commit": "0ddba11"}) for number in range(30)]
    own = [each.model_copy(update={"user_code": code}) for each, code in zip(nights, codes, strict=True)]
    said = "when the commit of my_models changed (feedfacecafe -> 0ddba11)"
    assert sentence(changes(own)[0]).endswith(said)
    other = [
        each.model_copy(update={"user_code": BARE if number < 20 else CLEAN}) for number, each in enumerate(nights)
    ]
    assert sentence(changes(other)[0]).endswith("neither stack nor commit changed that night")
