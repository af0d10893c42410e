"""What leaves the history is what its readers expect: Apache Otava's CSV, pytest-benchmark's JSON, Bencher's format."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.stats import Stats

from correctness_tests.suite.nights import drifting, night
from correctness_tests.suite.synthetic import Job, accepted
from fixtures.gate.comparisons import compare
from fixtures.gate.verdicts import Verdict
from fixtures.history import Night, append_night
from fixtures.history.__main__ import main
from fixtures.history.exports import ATTRIBUTES, bencher_json, benchmark_json, otava_csv

pytestmark = pytest.mark.cpu

JOB = Job(own_sd=0.01, shared_sd=0.02)
NIGHT = Night.of(compare(JOB.measurements(), accepted(), gate_times=True))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A history of 12 nights, on the last 4 of which the step took 5% longer."""
    path = tmp_path / "history.sqlite"
    for each in drifting([0.0] * 8 + [0.05] * 4):
        append_night(path, each)
    return path


def test_otava_reads_a_number_in_every_cell() -> None:
    """A row a night, its time with a zone, attributes, and a figure for every ratio and every arm."""
    table, columns = otava_csv([night(0), night(1)], "gpt2-rehearsal")
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["time"] for row in rows] == [night(0).date, night(1).date]
    assert set(rows[0]) == {"time", *ATTRIBUTES, *columns}
    assert {"fsdp2:ddp/step", "fsdp2/step_ms", "ddp/resident_bytes", "fsdp2-noreshard/peak_bytes"} <= set(columns)
    assert all(float(row[column]) > 0 for row in rows for column in columns)


def test_a_night_without_a_column_has_no_row() -> None:
    """Otava can't read an empty cell: an invalid or a partial night is left out, and the others keep their columns."""
    first, *others = night(0).comparisons
    broken = night(1).model_copy(
        update={"comparisons": (first.model_copy(update={"verdict": Verdict.INVALID}), *others)}
    )
    table, _ = otava_csv([night(0), broken, night(2)], "gpt2-rehearsal")
    assert [row["time"] for row in csv.DictReader(table.splitlines())] == [night(0).date, night(2).date]


def test_bencher_has_every_ratio_with_its_interval() -> None:
    """benchmark, measure, value with lower and upper value: numbers, as its schema says."""
    made = json.loads(bencher_json(NIGHT))
    for c in NIGHT.comparisons:
        assert made[c.case.id] == {"ratio": {"value": c.ratio, "lower_value": c.low, "upper_value": c.high}}

    numbers = [value for measures in made.values() for metric in measures.values() for value in metric.values()]
    assert all(isinstance(value, int | float) for value in numbers)
    assert made["gpt2-rehearsal/ddp"].keys() == {"resident_bytes", "peak_bytes", "step_ms"}


def test_benchmark_statistics_are_pytest_benchmarks_own() -> None:
    """Each field that pytest-benchmark computes from the same figures is equal, but for its way to cut quartiles."""
    made = {b["name"]: b for b in json.loads(benchmark_json(NIGHT))["benchmarks"]}
    assert set(made) == {c.case.id for c in NIGHT.comparisons}
    for c in NIGHT.comparisons:
        theirs: Any = Stats()  # type: ignore[no-untyped-call]
        for ratio in c.pair_ratios:
            theirs.update(ratio)
        found = made[c.case.id]["stats"]
        for name in ("min", "max", "mean", "stddev", "rounds", "median", "total", "ops", "stddev_outliers"):
            assert found[name] == pytest.approx(getattr(theirs, name)), name
        assert set(theirs.as_dict()) <= set(found)
        assert statistics.median(found["data"]) == found["median"]


def test_pytest_benchmark_compares_the_files(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``pytest-benchmark compare`` reads what was written for two nights, and shows both."""
    from pytest_benchmark.cli import main as compare_main

    assert main(["benchmark", str(history), "--last", "2", "--out", str(tmp_path / "nights")]) == 0
    files = sorted(str(path) for path in (tmp_path / "nights").iterdir())
    assert [Path(file).name for file in files] == ["0001_2026-01-11.json", "0002_2026-01-12.json"]
    monkeypatch.setattr("sys.argv", ["pytest-benchmark", "compare", *files, "--columns=min,median"])
    compare_main()  # type: ignore[no-untyped-call]
    shown = capsys.readouterr().out
    assert shown.count("gpt2-rehearsal/fsdp2:ddp/step") >= 2


def test_bencher_writes_the_latest_night(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``bencher`` writes a file, or prints the same."""
    assert main(["bencher", str(history), "--out", str(tmp_path / "bencher.json")]) == 0
    assert main(["bencher", str(history)]) == 0
    assert capsys.readouterr().out == (tmp_path / "bencher.json").read_text()


def test_changes_are_printed(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``changes`` says what shifted, by how much and when."""
    assert main(["changes", str(history)]) == 0
    assert capsys.readouterr().out == (
        "gpt2-rehearsal: fsdp2/ddp step time shifted +5.1% on 9 January 2026, when the commit changed (000000000007 -> "
        "000000000008)\n"
    )


def test_otava_files_are_written(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``otava`` writes a table and a configuration that names it and each column, and prints the command."""
    assert main(["otava", str(history), "--out", str(tmp_path / "otava")]) == 0
    assert capsys.readouterr().out.startswith("otava analyze --config-file ")
    (name, test), *_ = json.loads((tmp_path / "otava" / "otava.yaml").read_text())["tests"].items()
    assert (name, test["type"], test["time_column"]) == ("gpt2-rehearsal", "csv", "time")
    header = Path(test["file"]).read_text().splitlines()[0].split(",")
    assert {metric["column"] for metric in test["metrics"].values()} | set(test["attributes"]) <= set(header)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["changes", "nowhere.sqlite"], "there is no such history"),
        (["changes", "HISTORY", "--platform", "cpu-gloo-2"], "has no night of cpu-gloo-2"),
        (["changes", "HISTORY", "--last", "0"], "pass 1 or more"),
        (["otava", "HISTORY", "--workload", "x", "--out", "o"], "no figure of workload 'x': it has gpt2-rehearsal"),
        (["bencher", "HISTORY", "--out", "/proc/none/x.json"], "can't be written"),
    ],
)
def test_what_a_user_can_mend_is_one_line(
    history: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Exit status 2, and a line that names the thing."""
    assert main([str(history) if word == "HISTORY" else word for word in arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert said in told
    assert told.count("\n") == 1
