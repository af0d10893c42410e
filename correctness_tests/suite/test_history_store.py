"""The history loses no night: not to other writers, a kill, a full disk or a bad file; and it takes no nonsense."""

from __future__ import annotations

import os
import resource
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from correctness_tests.suite.nights import FORK, concurrent_writers, killed_writers, night
from correctness_tests.suite.synthetic import STACK, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.comparisons import compare
from fixtures.history import Night, append_night, read_nights, schema

pytestmark = pytest.mark.cpu


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a history is to be, in a folder that is not there yet."""
    return tmp_path / "results" / "history.sqlite"


def test_nights_come_back_as_they_went_in(path: Path) -> None:
    """Whatever order they are appended in, every night is read back equal, oldest first."""
    for number in (2, 0, 1):
        append_night(path, night(number))
    assert read_nights(path) == [night(0), night(1), night(2)]
    assert read_nights(path, last=2) == [night(1), night(2)]


def test_a_night_has_the_verdict_and_the_evidence(path: Path) -> None:
    """Ratio, interval, pairs, verdict, baseline, both arms, stack and commit are those of the comparison."""
    compared = compare(Job(own_sd=0.01).measurements(), accepted(), gate_times=True)
    append_night(path, Night.of(compared))
    (kept,) = read_nights(path)
    assert (kept.stack.torch, kept.commit, kept.platform) == (STACK.torch, "0123456789ab", "cpu-gloo-4")
    for c in compared:
        found = kept.comparison(c.case.id)
        assert found is not None
        assert c.estimate is not None
        assert c.baseline is not None
        assert (found.ratio, found.low, found.high) == (c.estimate.ratio, c.estimate.low, c.estimate.high)
        assert (found.verdict, found.gated, found.move) == (c.judgement.verdict, c.gated, c.judgement.move)
        assert (found.baseline, found.baseline_date) == (c.baseline.ratio, c.baseline.provenance.date)
        assert (found.numerator.median, found.denominator.median) == (c.numerator.median, c.denominator.median)
        assert found.pair_ratios == c.nights[0]


@pytest.mark.parametrize("name", ["a?mode=ro.sqlite", "a#b%20c.sqlite", "na\u00efve \U0001f319.sqlite"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    """What means something in a URI is only a name here: the file is made under it, and nothing beside it."""
    append_night(tmp_path / name, night(0))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert read_nights(tmp_path / name) == [night(0)]


def test_judged_again_is_the_same_night(path: Path) -> None:
    """Launches judged by another baseline take the place of their first judgement; other launches don't."""
    measurements = Job(own_sd=0.01).measurements()
    append_night(path, Night.of(compare(measurements, None, gate_times=True)))
    append_night(path, Night.of(compare(measurements, accepted(), gate_times=True)))
    append_night(path, Night.of(compare(Job(own_sd=0.01, seed=1).measurements(), accepted(), gate_times=True)))
    first, second = read_nights(path)
    assert {c.baseline is None for c in (*first.comparisons, *second.comparisons)} == {False}


def test_platforms_and_planted_faults_are_told_apart(path: Path) -> None:
    """A reader asks for one platform, and gets the nights under a planted fault only by asking."""
    append_night(path, night(0))
    append_night(path, night(1).model_copy(update={"platform": "cuda-nccl-8--gpu"}))
    append_night(path, night(2).model_copy(update={"rank_patch": "faults.leak:apply"}))
    assert read_nights(path, platform="cpu-gloo-4") == [night(0)]
    assert [each.date for each in read_nights(path, patched=True)] == [night(number).date for number in range(3)]


def test_concurrent_writers_lose_nothing(path: Path) -> None:
    """Eight processes that append at once to a file that none of them has made yet: every night is there."""
    assert len(concurrent_writers(path, writers=8, nights=4)) == 8 * 4


def test_killed_writers_lose_nothing(path: Path) -> None:
    """SIGKILL at random moments: the file is sound, and every night that was said to be kept is whole in it."""
    for promised, found in killed_writers(path, kills=15):
        assert len(found) >= promised
        assert found == [night(number) for number in range(len(found))]


def _append_within(path: Path, limit: int, nights: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        for number in range(1, nights):
            append_night(path, night(number))
    except UsageError as error:
        (path.parent / "error").write_text(str(error))


def test_full_disk_is_one_error_and_loses_nothing(path: Path) -> None:
    """Where the file may not grow, the error names it and the remedy, and the nights that were there are whole."""
    append_night(path, night(0))
    writer = FORK.Process(target=_append_within, args=(path, path.stat().st_size + 8192, 20))
    writer.start()
    writer.join()
    text = (path.parent / "error").read_text()
    assert text.startswith(f"history {path}: can't be written: ")
    assert "Name another file with --history" in text
    found = read_nights(path)
    assert 1 <= len(found) < 20
    assert found == [night(number) for number in range(len(found))]


def _append_as_nobody(path: Path) -> None:
    if os.getuid() == 0:
        os.setuid(65534)
    try:
        append_night(path, night(1))
    except UsageError as error:
        os._exit(0 if "history.sqlite: can't be written: " in str(error) and "--history" in str(error) else 2)
    os._exit(3)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only_is_one_error(tmp_path: Path, what: str) -> None:
    """A file, or a folder for a new one, that may not be written: named, with the remedy."""
    path = tmp_path / "history.sqlite"
    if what == "file":
        append_night(path, night(0))
        path.chmod(0o444)
    tmp_path.chmod(0o555)
    writer = FORK.Process(target=_append_as_nobody, args=(path,))
    writer.start()
    writer.join()
    tmp_path.chmod(0o755)
    assert writer.exitcode == 0


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE photographs (name TEXT)")


def _newer(path: Path) -> None:
    append_night(path, night(0))
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")


def _torn(path: Path) -> None:
    """One page of the middle is nonsense, which the next append would not touch."""
    for number in range(30):
        append_night(path, night(number))
    content = bytearray(path.read_bytes())
    middle = len(content) // 4096 // 2 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(content)


BAD = {
    "foreign": (_foreign, "of another program"),
    "newer": (_newer, "version 99 of the tables, and this Shardgate knows up to 2: update it"),
    "torn": (_torn, "damaged|malformed"),
    "text": (lambda path: path.write_text("mode,world\n" * 100), "file is not a database"),
    "folder": (lambda path: path.mkdir(), "no regular file"),
    "pipe": (os.mkfifo, "no regular file"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_named_and_left_as_it_was(path: Path, kind: str) -> None:
    """Foreign, newer, torn or no database at all: one error with file, fault and remedy; not a byte is changed."""
    make, fault = BAD[kind]
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(UsageError, match=fault) as caught:
        append_night(path, night(7))
    assert str(caught.value).startswith(f"history {path}: ")
    assert "Name another file with --history, or move this one away" in str(caught.value)
    if before is not None:
        assert path.read_bytes() == before
        with pytest.raises(UsageError, match=fault):
            read_nights(path)


def test_an_older_file_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of an older version takes the missing step with the next night, keeps its nights, and is read before."""
    append_night(path, night(0))
    step = ("ALTER TABLE nights ADD COLUMN node TEXT",)
    monkeypatch.setattr("fixtures.history.store.STEPS", (*schema.STEPS, step))
    assert read_nights(path) == [night(0)]
    append_night(path, night(1))
    assert read_nights(path) == [night(0), night(1)]
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(schema.STEPS) + 1,)
        assert db.execute("SELECT node FROM nights").fetchall() == [(None,), (None,)]


def test_a_step_that_fails_leaves_the_older_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step runs in the transaction of its night: when it fails half way, the file is what it was."""
    append_night(path, night(0))
    before = path.read_bytes()
    step = ("ALTER TABLE nights ADD COLUMN node TEXT", "ALTER TABLE nowhere ADD COLUMN node TEXT")
    monkeypatch.setattr("fixtures.history.store.STEPS", (*schema.STEPS, step))
    with pytest.raises(UsageError, match="no such table: nowhere"):
        append_night(path, night(1))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("commit", "x" * 100_000),
        ("commit", "ab\ncd"),
        ("date", "yesterday"),
        ("rank_patch", "x" * 201),
    ],
)
def test_hostile_provenance_is_refused(field: str, value: str) -> None:
    """Huge or broken text in what travels with the figures is one error that names the field."""
    compared = compare(Job().measurements(), None, gate_times=True)
    provenance = compared[0].provenance.model_copy(update={field: value})
    hostile = [c.model_copy(update={"provenance": provenance}) for c in compared]
    with pytest.raises(UsageError, match=f"can't be kept in the history: {field}: ") as caught:
        Night.of(hostile)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_hostile_figures_are_refused(value: float) -> None:
    """NaN, infinity, and amounts that no machine has."""
    (first, *others) = compare(Job().measurements(), None, gate_times=True)
    arm = first.numerator.model_copy(update={"median": value})
    with pytest.raises(UsageError, match=r"can't be kept in the history: (numerator\.)?median: "):
        Night.of([first.model_copy(update={"numerator": arm}), *others])


ROWS: dict[str, tuple[str, Any]] = {
    "case": ("case_id", "no case at all"),
    "verdict": ("verdict", "FINE"),
    "ratio": ("ratio", "not a number"),
    "infinite": ("ratio", float("inf")),
    "negative": ("numerator_median", -1.0),
    "pairs": ("pair_ratios", "[NaN]"),
    "deep": ("pair_ratios", "[" * 100_000),
    "blob": ("verdict", b"\x00\xff"),
    "huge": ("pair_ratios", "[" + "1.5, " * 2_000_000 + "1.5]"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_no_job_wrote_is_refused(path: Path, name: str) -> None:
    """Rows from outside are validated like any other input, and the file is named."""
    append_night(path, night(0))
    column, value = ROWS[name]
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE comparisons SET {column} = ? WHERE rowid = 1", [value])
    with pytest.raises(UsageError, match=rf"^history {path}: ") as caught:
        read_nights(path)
    assert len(str(caught.value)) < 800
    assert name != "huge" or "too big" in str(caught.value)  # before it is parsed


def test_no_history_yet_is_said(path: Path) -> None:
    """Reading where there is none says how one comes about; an empty file is an empty history."""
    with pytest.raises(UsageError, match="there is no such history"):
        read_nights(path)
    path.parent.mkdir()
    path.touch()
    assert read_nights(path) == []
