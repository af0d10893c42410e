"""The experiment's CSV is written as published and read back into launches that can be judged."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.synthetic import ARMS, CPU4, WORKLOAD, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.comparisons import compare
from fixtures.gate.verdicts import Verdict
from fixtures.measurements import Measurement, PlatformRecord, WorkloadRecord
from fixtures.report.csvfile import COLUMNS, append_csv, read_csv

pytestmark = pytest.mark.cpu

HEADER = "mode,world,resident_GiB,peak_GiB,step_ms,ktok_per_s"
LARGE = WorkloadRecord(name="gpt2-large", num_params=774_090_240, tokens_per_batch=4096)
EIGHT = PlatformRecord(device_type="cuda", backend="nccl", world_size=8, machine="card")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the CSV is written."""
    return tmp_path / "night.csv"


def read(path: Path) -> list[Measurement]:
    """The CSV as launches of the synthetic workload."""
    return read_csv(path, CPU4, WORKLOAD)


def test_columns_and_labels_are_the_experiments(path: Path) -> None:
    """The header once, then mode, world, GiB, GiB, ms and thousands of tokens a second."""
    append_csv(path, Job(launches=1).measurements())
    assert path.read_text().splitlines() == [
        HEADER,
        "ddp,4,12,20,480,2.13333",
        "fsdp2,4,2,9,340,3.01176",
        "fsdp2-noreshard,4,2,10,280,3.65714",
    ]


def test_appending_writes_no_second_header(path: Path) -> None:
    """Rows of a second run follow the first's."""
    for _ in range(2):
        append_csv(path, Job(launches=1).measurements())
    assert (path.read_text().count("mode"), len(path.read_text().splitlines())) == (1, 7)


def test_foreign_file_is_not_appended_to(path: Path) -> None:
    """A file with another first line is named and left alone."""
    path.write_text("a,b\n")
    with pytest.raises(UsageError, match=r"night\.csv: its first line is not mode,world"):
        append_csv(path, Job(launches=1).measurements())
    assert path.read_text() == "a,b\n"


def test_unwritable_place_is_named(tmp_path: Path) -> None:
    """A path under a file is a UsageError naming it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        append_csv(tmp_path / "file" / "x.csv", Job(launches=1).measurements())


def _append(path: Path, seed: int) -> None:
    for _ in range(5):
        append_csv(path, Job(launches=1, own_sd=0.1, seed=seed).measurements())


def test_concurrent_appends_do_not_mix(path: Path) -> None:
    """4 processes append 5 times 3 rows: one header, 60 whole rows."""
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append, args=(path, seed)) for seed in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert len(read(path)) == 60


def test_append_waits_for_the_lock(path: Path) -> None:
    """While another process holds the lock nothing is written; when it lets go, the rows are."""
    with FileLock(path.with_name(".night.csv.lock")):
        writer = multiprocessing.get_context("fork").Process(target=_append, args=(path, 0))
        writer.start()
        writer.join(0.5)
        assert writer.is_alive()
        assert not path.exists()
    writer.join(30)
    assert len(read(path)) == 15


def test_rows_read_back_as_launches(path: Path) -> None:
    """Each row is a launch of its arm with the row's figures, numbered within its arm."""
    launches = Job(launches=4, own_sd=0.05).measurements()
    append_csv(path, launches)
    for wrote, got in zip(launches, read(path), strict=True):
        assert (got.strategy, got.launch) == (wrote.strategy, wrote.launch)
        assert got.resident_bytes == wrote.resident_bytes
        assert got.step_ms == pytest.approx(wrote.step_ms, rel=1e-5)


def test_rows_are_judged_as_their_launches_were(path: Path) -> None:
    """A slip planted in launches is found in their CSV, with the same verdicts."""
    job = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(step=1.12, resident=0.7)}, own_sd=0.01)
    baseline = accepted()
    append_csv(path, job.measurements())
    verdicts = [
        {c.case.id: c.judgement.verdict for c in compare(launches, baseline, True)}
        for launches in (job.measurements(), read_csv(path, CPU4, WORKLOAD, job.settings))
    ]
    assert verdicts[0] == verdicts[1]
    assert {Verdict.REGRESSED, Verdict.IMPROVED} <= set(verdicts[1].values())


def test_published_rows_read(path: Path) -> None:
    """Rows with the published figures, rounded as published, are launches of GPT-2 Large on 8 ranks."""
    path.write_text(f"{HEADER}\nddp,8,11.76,20.1,477,68.7\nfsdp2,8,1.27,9.9,338,96.9\n")
    assert [m.step_ms for m in read_csv(path, EIGHT, LARGE)] == [477.0, 338.0]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("ddp,4,12,20,480", "line 2: 5 cells, not 6"),
        ("fsdp9,4,12,20,480,2.13", "line 2: mode 'fsdp9'"),
        ("ddp,8,12,20,480,2.13", "line 2: world '8', but it is judged as cpu-gloo-4"),
        ("ddp,4,nan,20,480,2.13", "line 2: resident_GiB is 'nan'"),
        ("ddp,4,12,inf,480,2.13", "line 2: peak_GiB is 'inf'"),
        ("ddp,4,12,20,0,2.13", "line 2: step_ms is '0'"),
        ("ddp,4,12,20,-480,2.13", "line 2: step_ms is '-480'"),
        ("ddp,4,12,20,480,", "line 2: ktok_per_s is ''"),
        ("ddp,4,12,20,480,9.99", "does not fit gpt2-rehearsal, which makes 2.133"),
        ("", "no row under the header"),
    ],
)
def test_bad_row_is_named(path: Path, row: str, words: str) -> None:
    """Each kind of bad row is refused with its line, column and value."""
    path.write_text(f"{HEADER}\n{row}\n")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    """Whatever follows the header: launches or a UsageError."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(HEADER.encode() + b"\n" + tail)
    with pytest.raises(UsageError):
        read(path)


def test_header_of_another_table_is_refused(path: Path) -> None:
    """A CSV with other columns says which it needs."""
    path.write_text("mode,world\n")
    with pytest.raises(UsageError, match=",".join(COLUMNS)):
        read(path)
