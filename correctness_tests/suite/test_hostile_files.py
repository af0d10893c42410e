"""A file that is none, or that somebody made to do harm, is one UsageError with its name: at once, in little memory."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from correctness_tests.suite.synthetic import WORKLOAD, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import load_baseline, render
from fixtures.report import results
from fixtures.report.csvfile import append_csv
from fixtures.report.results import load_results, save_measurement

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(20)]

LAUNCH = Job(launches=1).measurements()[0]
MAY_TAKE_BYTES = 24 * 1024**2


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """No refusal takes more memory than a file of the largest size that may be read, and half of that."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MAY_TAKE_BYTES


@pytest.fixture(params=["baseline", "launch", "table"])
def loader(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[], Any]]:
    """A good file, and what loads it: a baseline, a folder with a launch, a folder with the experiment's CSV."""
    folder = tmp_path / "folder"
    folder.mkdir()
    if request.param == "baseline":
        path = folder / "cpu-gloo-4.json"
        path.write_text(render(accepted()))
        return path, lambda: load_baseline(path)
    path = folder / ("launch.json" if request.param == "launch" else "night.csv")
    if request.param == "launch":
        save_measurement(path, LAUNCH)
    else:
        append_csv(path, [LAUNCH])
    return path, lambda: load_results(folder, platform_key="cpu-gloo-4", workload=lambda: WORKLOAD)


Loader = tuple[Path, Callable[[], Any]]


def make_fifo(path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def make_sparse(path: Path) -> None:
    """1 GB that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(10**9)


def make_link_out(path: Path) -> None:
    """A link to a good file of somebody else's."""
    elsewhere = path.parent.parent / "secret"
    elsewhere.write_text("not yours")
    path.symlink_to(elsewhere)


def make_link_to_device(path: Path) -> None:
    """A link to a file without end."""
    path.symlink_to("/dev/zero")


def make_circle(path: Path) -> None:
    """A link to itself."""
    path.symlink_to(path)


def make_latin(path: Path) -> None:
    """Text that is no UTF-8."""
    path.write_bytes('{"é": 1}'.encode("latin-1"))


def make_binary(path: Path) -> None:
    """Zero bytes."""
    path.write_bytes(bytes(1000))


@pytest.mark.parametrize(
    "make",
    [make_fifo, make_sparse, make_link_out, make_link_to_device, make_circle, make_latin, make_binary, Path.mkdir],
)
def test_what_is_no_such_file_is_refused(loader: Loader, make: Callable[[Path], None]) -> None:
    """Each is refused by name, and what it holds is not told."""
    path, load = loader
    load()
    path.unlink()
    make(path)
    with pytest.raises(UsageError, match=path.name) as caught:
        load()
    assert "not yours" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_link_within_the_folder_is_read(loader: Loader) -> None:
    """A link to a file beside it is no attack."""
    path, load = loader
    path.rename(path.with_name("real"))
    path.symlink_to("real")
    load()


HOSTILE = {
    "deep lists": "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "NaN": '{"strategy": NaN}',
    "infinity": '{"strategy": 1e999}',
    "a long integer": '{"strategy": ' + "9" * 10_000_000 + "}",
    "a long float": '{"strategy": 0.' + "1" * 1_000_000 + "e-5}",
    "a key twice": '{"strategy": "ddp", "strategy": "ddp"}',
    "many keys": '{"strategy": 1, ' + ", ".join(f'"{i}": 0' for i in range(30_000)) + "}",
    "a long text": json.dumps({"strategy": "x" * 3_000_000}),
    "half a surrogate": '{"strategy": "\\ud800"}',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_refused(loader: Loader, kind: str) -> None:
    """JSON that is nested without end, too large, ambiguous or no number: refused, in a message of bounded length."""
    path, load = loader
    path.write_text(HOSTILE[kind])
    with pytest.raises(UsageError, match=path.name) as caught:
        load()
    assert len(str(caught.value)) < 1000


def test_table_of_many_rows_is_numbered(tmp_path: Path) -> None:
    """Every row of a long table is a launch of its own."""
    path = tmp_path / "night.csv"
    append_csv(path, [LAUNCH])
    header, row = path.read_text().splitlines()
    path.write_text("\n".join([header, *[row] * 1_000]))
    launches = load_results(tmp_path, platform_key="cpu-gloo-4", workload=lambda: WORKLOAD)
    assert [m.launch for m in launches] == list(range(1_000))


def test_folder_that_is_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that are small enough each and too large together are refused before the first is read."""
    monkeypatch.setattr(results, "MAX_TOTAL_BYTES", 3_000)
    for name in "abcd":
        (tmp_path / f"{name}.json").write_text(" " * 1000)
    with pytest.raises(UsageError, match=r"launches of 4000 bytes \(the largest: [abcd]\.json\), more than the 3000"):
        load_results(tmp_path)


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\x9b2Jb", "a\u202eb", "a\nb", "a\x7fb"])
def test_name_that_would_write_to_the_terminal_is_refused(tmp_path: Path, name: str) -> None:
    """A name from elsewhere is printed as it is, so it holds no character that moves the cursor or turns text."""
    path = tmp_path / "launch.json"
    save_measurement(path, LAUNCH)
    tree = json.loads(path.read_text())
    tree["workload"]["name"] = name
    path.write_text(json.dumps(tree))
    with pytest.raises(UsageError, match=r"launch\.json: workload > name"):
        load_results(tmp_path)
