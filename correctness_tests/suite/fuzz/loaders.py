"""A target for each loader: bytes in; returns whether they were accepted, and raises for what must never happen."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import rich
from pydantic import TypeAdapter

from correctness_tests.suite.fuzz.histories import histories, kept_again
from correctness_tests.suite.synthetic import WORKLOAD, Job, accepted
from fixtures.bandwidth import Bandwidth, BandwidthTable
from fixtures.errors import UsageError
from fixtures.folder_options import SUITE
from fixtures.gate import baselines, budget_files, networks
from fixtures.gate.baselines import BaselineFile, render
from fixtures.gate.budget_files import load_budgets, render_budgets
from fixtures.gate.comparisons import compare
from fixtures.gate.networks import NetworkFile, render_network
from fixtures.gate.proposals import Asked, propose
from fixtures.gate.shelves import Shelf
from fixtures.measurements import Measurement, PlatformRecord
from fixtures.report import bandwidth as bandwidths
from fixtures.report import evidence_lines, judged, steps, tables
from fixtures.report.csvfile import append_csv
from fixtures.report.pages import Run, render_page
from fixtures.report.results import load_results, parse_key
from fixtures.report.summary import COMMENT_LIMIT, markdown
from fixtures.timelines import Span, Timeline

MAX_ERROR = 2000
"""Characters of an error's message; what it quotes of an input is cut."""

LAUNCH = Job(launches=1).measurements()[0]
ROW = Bandwidth(kind="all-reduce", dtype="float32", bytes=1024, gb_per_s=10.2)
TABLE = BandwidthTable(source="measured", world_size=4, rows=[ROW])
SPAN = Span(lane="compute", kind="forward", unit="block 0", start_ms=0.0, end_ms=1.5)
STEP = Timeline(strategy="fsdp2", source="simulated", spans=(SPAN,))
ARMS = ("ddp", "fsdp2", "fsdp2-noreshard")


@cache
def folder() -> Path:
    """Holds the file that is loaded."""
    kept = tempfile.TemporaryDirectory(prefix="shardgate-loaded-")
    _kept.append(kept)
    return Path(kept.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def baseline(data: bytes) -> bool:
    """A baseline that loads is written as text that loads as the same."""
    return _is_kept(baselines.SHELF, "cpu-gloo-4", data)


def launch(data: bytes) -> bool:
    """A launch that loads can be compared with others of its kind, told and accepted, whatever its figures are."""
    own = folder() / "launch"
    own.mkdir(exist_ok=True)
    (own / "launch.json").write_bytes(data)
    (loaded,) = load_results(own)
    _judge(loaded)
    return True


def table(data: bytes) -> bool:
    """Rows of a CSV that load can be compared."""
    own = folder() / "table"
    own.mkdir(exist_ok=True)
    (own / "night.csv").write_bytes(data)
    for loaded in load_results(own, platform_key="cpu-gloo-4", workload=lambda: WORKLOAD)[:3]:
        _judge(loaded)
    return True


def _judge(loaded: Measurement) -> None:
    launches = [
        loaded.model_copy(update={"strategy": arm, "launch": number, "order": 3 * number + place})
        for number in range(3)
        for place, arm in enumerate(ARMS)
    ]
    compared = compare(launches, accepted_once(), gate_times=True)
    judged.verdicts_text(compared)
    markdown(compared, limit=COMMENT_LIMIT)
    tables.render(tables.arms_table(launches))
    with contextlib.suppress(UsageError):
        propose(compared, accepted_once(), Asked("as found", allow_dirty=True))


@cache
def accepted_once() -> BaselineFile:
    """A baseline to compare with."""
    return accepted()


def platform(data: bytes) -> bool:
    """A platform's name that is accepted is the key of what it names."""
    text = data.decode("utf-8", "surrogateescape")
    assert parse_key(text).key == text
    return True


def settings(data: bytes) -> bool:
    """Settings from the environment that are accepted can be recorded, and are part of a file's name."""
    from fixtures.platforms import settings_that_matter

    first, _, second = data.decode("utf-8", "surrogateescape").replace("\0", "").partition("\n")
    found = settings_that_matter({"NCCL_ALGO": first, "PYTORCH_ALLOC_CONF": second})
    record = PlatformRecord(device_type="cuda", backend="nccl", world_size=8, settings=found)
    assert "/" not in record.key
    return True


def workload(data: bytes) -> bool:
    """A workload's name that names nothing says so; one that names code is not tried here, since it would run."""
    from fixtures.workloads import REGISTRY, resolve_workload

    text = data.decode("utf-8", "surrogateescape")
    module = text.partition(":")[0].split(".")[0]
    if text in REGISTRY or module in sys.stdlib_module_names or module in sys.modules or module in _here():
        return False
    resolve_workload(text)
    raise AssertionError(f"{text!r} was taken for a workload")


@cache
def _here() -> set[str]:
    """Modules of the current folder."""
    return {path.stem for path in Path.cwd().iterdir()}


def budgets(data: bytes) -> bool:
    """Budgets that load are written as text that loads as the same."""
    return _is_kept(budget_files.SHELF, "cpu-solo-8", data)


def bandwidth(data: bytes) -> bool:
    """A bandwidth table that loads can be printed."""
    _write(bandwidths.PATH, data)
    loaded = bandwidths.load_bandwidth(folder() / "run")
    assert loaded is not None
    rich.print(bandwidths.bandwidth_table(loaded), file=io.StringIO())
    return True


def network(data: bytes) -> bool:
    """An accepted bandwidth table that loads is written as text that loads as the same."""
    return _is_kept(networks.SHELF, "cpu-gloo-4", data)


def _is_kept(shelf: Shelf[Any], platform_key: str, data: bytes) -> bool:
    path = shelf.path(folder(), platform_key)
    path.write_bytes(data)
    text = shelf.render(shelf.load(path))
    path.write_text(text)
    assert shelf.render(shelf.load(path)) == text
    return True


def verdicts(data: bytes) -> bool:
    """Verdicts that load are told everywhere: written as text, as Markdown, as a table, on a page."""
    _write(Path(judged.FOLDER) / judged.VERDICTS, data)
    loaded = judged.load_verdicts(folder() / "run")
    judged.verdicts_text(loaded)
    markdown(loaded, limit=COMMENT_LIMIT)
    if loaded:  # a session without comparisons has no table
        tables.render(tables.verdict_table(loaded))
    render_page(Run([], loaded))
    return True


def timelines(data: bytes) -> bool:
    """Timelines that load are written again, and their exposed time is a part of their step."""
    _write(steps.NAME, data)
    loaded = steps.load_steps(folder() / "run")
    steps.save_steps(folder() / "again", loaded)
    assert all(0 <= step.exposed_ms <= step.step_ms * (1 + 1e-9) for step in loaded)
    return True


def evidence(data: bytes) -> bool:
    """Evidence that loads is told in a summary."""
    _write(evidence_lines.NAME, data)
    stored = evidence_lines.load_evidence(folder() / "run")
    judged_ = compare(Job(launches=3).measurements(), accepted(), True)[:2]
    markdown(judged_, limit=COMMENT_LIMIT, evidence=evidence_lines.shown_of(judged_, stored))
    return True


def history(data: bytes) -> bool:
    """A history that is read is written again as the same; so are rows that are given as JSON."""
    return kept_again(folder(), data)


def _write(name: Path, data: bytes) -> None:
    path = folder() / "run" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


LOADERS: dict[str, Callable[[bytes], bool]] = {
    target.__name__: target
    for target in (
        baseline,
        launch,
        table,
        platform,
        settings,
        workload,
        budgets,
        bandwidth,
        network,
        verdicts,
        timelines,
        evidence,
        history,
    )
}


@cache
def seeds(name: str) -> tuple[bytes, ...]:
    """Good inputs of a loader, to begin with."""
    made: dict[str, Callable[[], str]] = {
        "baseline": lambda: render(accepted(Job(launches=3))),
        "launch": lambda: LAUNCH.model_dump_json(exclude_none=True),
        "table": _table,
        "platform": lambda: "cuda-nccl-8--nvidia-h100",
        "settings": lambda: "Ring\nexpandable_segments:True, max_split_size_mb:64",
        "workload": lambda: "my_models.large:factory",
        "budgets": _budgets,
        "bandwidth": lambda: TABLE.model_dump_json(),
        "network": lambda: render_network(
            NetworkFile(platform=LAUNCH.platform, reason="the first night", date="2026-05-02", rows=[ROW])
        ),
        "verdicts": lambda: judged.verdicts_text(compare(Job(launches=3).measurements(), accepted(), True)[:2]),
        "evidence": lambda: f'{{"gpt2-rehearsal/fsdp2:ddp/peak": {{"date": "{Job().date}", "lines": ["fsdp2 grew"]}}}}',
        "timelines": lambda: TypeAdapter(list[Timeline]).dump_json([STEP]).decode(),
    }
    if name == "history":
        return histories(folder())
    return (made[name]().encode(),)


def _budgets() -> str:
    """The shipped file of the cpu tier, as far as its first entry."""
    path = SUITE / "baselines" / "cpu-solo-8.budgets.json"
    file = load_budgets(path)
    first = min(file.entries)
    return render_budgets(file.model_copy(update={"entries": {first: file.entries[first]}}))


def _table() -> str:
    path = folder() / "seed.csv"
    path.unlink(missing_ok=True)
    append_csv(path, [LAUNCH, LAUNCH])
    return path.read_text()


def attempt(name: str, data: bytes) -> bool:
    """Whether a loader accepts the input; any exception but a UsageError of bounded length comes through."""
    try:
        return LOADERS[name](data)
    except UsageError as error:
        message = str(error)
    assert len(message) < MAX_ERROR, f"a message of {len(message)} characters: {message[:200]}"
    return False
