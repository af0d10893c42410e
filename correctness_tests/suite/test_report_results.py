"""A run's folder holds all that judging needs, and a bad file in it is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from correctness_tests.suite.synthetic import CPU4, WORKLOAD, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.comparisons import compare
from fixtures.report.results import load_results, next_launch, parse_key, save_measurement, save_results

pytestmark = pytest.mark.cpu

JOB = Job(launches=3, own_sd=0.02)


def test_saved_launches_load_unchanged(tmp_path: Path) -> None:
    """What was measured is what loads, to the last bit, in the order in which it ran."""
    save_results(tmp_path, JOB.measurements())
    assert load_results(tmp_path) == JOB.measurements()


def test_stored_launches_give_the_same_comparisons(tmp_path: Path) -> None:
    """Judged from the folder, every comparison is equal to the live one, byte for byte."""
    baseline = accepted()
    save_results(tmp_path, JOB.measurements())
    live, stored = (compare(launches, baseline, True) for launches in (JOB.measurements(), load_results(tmp_path)))
    assert [c.model_dump_json() for c in stored] == [c.model_dump_json() for c in live]


def test_folder_holds_one_run(tmp_path: Path) -> None:
    """A shorter second run leaves no launch of the first behind, in JSON or CSV; other files stay."""
    save_results(tmp_path, Job(launches=5).measurements())
    (tmp_path / "notes.txt").write_text("mine")
    save_results(tmp_path, JOB.measurements())
    assert len(load_results(tmp_path)) == len((tmp_path / "results.csv").read_text().splitlines()) - 1 == 9
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_csv_alone_is_judged_when_told_what_it_is(tmp_path: Path) -> None:
    """Several CSV files, one an arm, are one job's launches."""
    save_results(tmp_path, JOB.measurements())
    text = (tmp_path / "results.csv").read_text().splitlines()
    folder = tmp_path / "csv"
    folder.mkdir()
    for mode in ("ddp", "fsdp2"):
        rows = [line for line in text[1:] if line.startswith(f"{mode},")]
        (folder / f"{mode}.csv").write_text("\n".join([text[0], *rows]) + "\n")
    launches = load_results(folder, platform_key="cpu-gloo-4", workload=lambda: WORKLOAD)
    assert [(m.strategy, m.launch) for m in launches] == [(mode, i) for mode in ("ddp", "fsdp2") for i in range(3)]


@pytest.mark.parametrize("key", ["cuda-nccl-8", "cpu-gloo-8", ""])
def test_a_platform_that_the_launches_contradict_is_refused(tmp_path: Path, key: str) -> None:
    """JSON says where it was measured: another --platform is somebody else's folder, and its own is no matter."""
    save_results(tmp_path, JOB.measurements())
    with pytest.raises(UsageError, match=f"--platform {key} is not where .* was measured: its launches say cpu-gloo-4"):
        load_results(tmp_path, platform_key=key)
    assert load_results(tmp_path, platform_key="cpu-gloo-4") == JOB.measurements()


def test_csv_without_a_platform_is_refused(tmp_path: Path) -> None:
    """A CSV does not say where it was measured, so someone must."""
    (tmp_path / "night.csv").write_text("")
    with pytest.raises(UsageError, match=r"night\.csv: a CSV does not say where it was measured: pass --platform"):
        load_results(tmp_path)


@pytest.mark.parametrize("kind", ["absent", "empty", "a file"])
def test_folder_without_launches_is_refused(tmp_path: Path, kind: str) -> None:
    """No folder, an empty one, a file in its place: named."""
    folder = tmp_path / "results"
    if kind == "empty":
        folder.mkdir()
    elif kind == "a file":
        folder.write_text("")
    with pytest.raises(UsageError, match=str(folder)):
        load_results(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "broken JSON"),
        ("[1, 2]", "this is not a launch"),
        ('{"machine_info": {}, "benchmarks": []}', "this is not a launch"),
        ('{"strategy": "ddp"}', "Field required"),
        ('{"strategy": "ddp", "launch": ' + "9" * 30 + "}", "beyond 64 bits"),
        ("[" * 50_000, "nested too deeply"),
    ],
    ids=["empty", "list", "benchmark", "incomplete", "huge", "deep"],
)
def test_foreign_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    """A JSON file that is no launch is refused by name, never passed over."""
    save_results(tmp_path, JOB.measurements())
    (tmp_path / "foreign.json").write_text(text)
    with pytest.raises(UsageError, match=rf"foreign\.json.*{words}"):
        load_results(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"), [("step_ms", []), ("step_ms", [1.0]), ("step_ms", ["1"]), ("peak_bytes", -1)]
)
def test_broken_samples_are_named(tmp_path: Path, field: str, value: object) -> None:
    """A rank without steps, with fewer than the others, with text for a number, with negative bytes: named."""
    path = save_results(tmp_path, JOB.measurements())[0]
    tree = json.loads(path.read_text())
    tree["ranks"][2][field] = value
    path.write_text(json.dumps(tree))
    with pytest.raises(UsageError, match=rf"{path.name}: ranks"):
        load_results(tmp_path)


def test_next_launch_counts_an_arms_launches(tmp_path: Path) -> None:
    """Launches that are added one by one are numbered within their arm."""
    assert next_launch(tmp_path / "new", "ddp") == 0
    for i, m in enumerate(JOB.measurements()[:4]):
        save_measurement(tmp_path / f"{i}.json", m)
    assert (next_launch(tmp_path, "ddp"), next_launch(tmp_path, "fsdp2")) == (2, 1)


@pytest.mark.parametrize("key", ["cpu-gloo-4", "cuda-nccl-8--nvidia-h100-80gb-hbm3"])
def test_platform_key_reads_back(key: str) -> None:
    """A key names a platform: parsed, it has that key."""
    assert parse_key(key).key == key


@pytest.mark.parametrize(
    "key", ["", "cpu", "cpu-gloo-0", "cpu-gloo-4--", "cpu-gloo-4--../x", "../cpu-gloo-4", "cpu-gloo-4\n"]
)
def test_nonsense_is_no_platform(key: str) -> None:
    """What is no key is refused with an example of one."""
    with pytest.raises(UsageError, match="write it like cpu-gloo-4"):
        parse_key(key)


def test_synthetic_platform_is_the_one_named() -> None:
    """The platform of these tests is the one whose key they use."""
    assert parse_key("cpu-gloo-4") == CPU4
