"""Property: an accepted table is kept as a baseline is: history, schema, no lost update, broken seen early."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from correctness_tests.suite.judging import GPUS, Judge, judge
from correctness_tests.suite.test_accepted_network import night, stored, table
from fixtures.errors import UsageError
from fixtures.folder_options import SUITE
from fixtures.gate import networks
from fixtures.gate.baselines import find_baseline
from fixtures.gate.networks import MAX_HISTORY, NetworkFile, find_network, load_network, network_path, write_network

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

SHIPPED = SUITE / "baselines"
UPDATE = ("--update-baselines", "--reason", "new switches")


def test_an_update_keeps_what_was_accepted(judge: Judge) -> None:
    """The table before it is in the file's history, rows, date and reason, and is read back."""
    night(judge, table(all_reduce=0.7), step=1.02)
    assert judge.judge(*UPDATE).ret == pytest.ExitCode.OK
    file = find_network(judge.baselines, GPUS.key)
    assert file is not None
    assert [(past.reason, past.date, past.rows) for past in file.history] == [
        ("the first night", "2026-05-02", stored().rows)
    ]
    assert file.rows == table(all_reduce=0.7).rows


def test_the_first_table_always_stays(tmp_path: Path) -> None:
    """The history is bounded: its newest and the very first."""
    file = stored()
    for number in range(MAX_HISTORY + 3):
        history = networks._history(file)
        file = NetworkFile(platform=GPUS, reason=f"update {number}", date="2026-06-01", rows=file.rows, history=history)
    assert len(file.history) == MAX_HISTORY
    assert [past.reason for past in (file.history[0], file.history[-1])] == [
        f"update {MAX_HISTORY + 1}",
        "the first night",
    ]
    assert load_network(write_network(tmp_path, file, replaces=None)) == file


def test_another_sessions_table_is_not_overwritten(tmp_path: Path) -> None:
    """A table that was accepted since this one was read stays; the same of a file that is new, or gone."""
    first = stored()
    path = write_network(tmp_path, first, replaces=None)
    theirs, ours = (first.model_copy(update={"reason": reason}) for reason in ("theirs", "ours"))
    write_network(tmp_path, theirs, replaces=first)
    for read in (first, None):
        with pytest.raises(UsageError, match="changed since this session read it, so nothing was written"):
            write_network(tmp_path, ours, replaces=read)
    assert load_network(path) == theirs
    path.unlink()
    with pytest.raises(UsageError, match="changed since"):
        write_network(tmp_path, ours, replaces=first)


def test_a_session_says_that_its_table_came_too_late(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session accepts a table while this one judges: the ratios are written, the table not, exit status 1."""
    night(judge, table(all_reduce=0.7), step=1.02)
    theirs = stored().model_copy(update={"reason": "theirs"})
    write_baseline = networks.write_network

    def late(directory: Path, file: NetworkFile, *, replaces: NetworkFile | None) -> Path:
        write_baseline(directory, theirs, replaces=stored())
        return write_baseline(directory, file, replaces=replaces)

    monkeypatch.setattr("fixtures.session.kept.write_network", late)
    result = judge.judge(*UPDATE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: accepted bandwidth table not kept: *changed since this session read it*"])
    assert find_network(judge.baselines, GPUS.key) == theirs


def test_a_broken_one_is_found_before_anything_is_judged(judge: Judge) -> None:
    """As a broken baseline is: exit status 4, file, line and remedy, and nothing judged, updated or changed."""
    night(judge, table(), step=1.02)
    path, before = network_path(judge.baselines, GPUS.key), find_baseline(judge.baselines, GPUS.key)
    path.write_text(broken := path.read_text()[:200])
    result = judge.judge(*UPDATE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{path.name}: line * column *git checkout*"])
    assert "shardgate =" not in result.stdout.str()
    assert (path.read_text(), find_baseline(judge.baselines, GPUS.key)) == (broken, before)


def test_a_message_twice_in_the_history_is_named(tmp_path: Path) -> None:
    """What was accepted before is held to the same rules."""
    rows = stored().rows
    past = networks.AcceptedTable(reason="before", date="2026-04-01", rows=[*rows, rows[0]])
    with pytest.raises(UsageError, match="history > 0 > rows: a message is there twice"):
        write_network(tmp_path, stored().model_copy(update={"history": [past]}), replaces=None)


def test_schema_is_up_to_date() -> None:
    """The schema that ships is the one that the code checks by; a file of a session passes it by its own names."""
    assert (SHIPPED / networks.SCHEMA).read_text() == networks.schema_text(), (
        f"run: python -m fixtures.gate.networks > baselines/{networks.SCHEMA}"
    )
    wanted = set(json.loads(networks.schema_text())["properties"])
    assert set(json.loads(networks.render_network(stored()))) <= wanted
