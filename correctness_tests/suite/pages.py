"""Runs to make pages of, drawn from stated figures, and what a large page costs.

``python -m correctness_tests.suite.pages`` times the page of 365 nights x 40 metrics: two figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from correctness_tests.suite.synthetic import ARMS, Figures, Job, accepted
from fixtures.accounts import Account
from fixtures.bandwidth import PUBLISHED
from fixtures.gate.cases import Case
from fixtures.gate.comparisons import Comparison, compare
from fixtures.gate.entries import StoredStack
from fixtures.history import Night, append_night, read_nights
from fixtures.measurements import Measurement, Stack, UnitRecord, WorkloadRecord
from fixtures.report.gallery import pictures
from fixtures.report.pages import Run, render_page, write_page
from fixtures.report.trends import trends_of
from fixtures.timelines import Span, Timeline

BLOCK = UnitRecord(
    name="block",
    count=3,
    parameters={
        "attention.qkv.weight": [384, 128],
        "attention.qkv.bias": [384],
        "feed_forward.up.weight": [512, 128],
        "feed_forward.down.weight": [128, 512],
    },
)
ROOT = UnitRecord(name="root", parameters={"tokens.weight": [512, 128], "norm.weight": [128]})
WORKLOAD = WorkloadRecord(
    name="gpt2-rehearsal", num_params=500_000, tokens_per_batch=256, shape_hash="abc123", units=[BLOCK, ROOT]
)
NIGHT = Job(workload=WORKLOAD, own_sd=0.01, shared_sd=0.01)
LATER = Stack(torch="2.14.1", python="3.11.9", nccl="2.28.3")
YEAR, METRICS = 365, 40
NEW_STACK, SLIP = 200, 300
"""The nights from which the synthetic history has another stack, and another step time."""


def run_of(job: Job = NIGHT, baseline: Job | None = NIGHT, **more: Any) -> Run:
    """The job judged by what another accepted (None: nothing), times gated; ``more`` are fields of the run."""
    measured = job.measurements()
    compared = compare(measured, accepted(baseline) if baseline else None, gate_times=True)
    return replace(Run(measured, compared, results="results/night"), **more)


def regressed(**more: Any) -> Run:
    """A night on which FSDP2 takes two thirds more memory at rest, on another stack, with all a page can show."""
    slipped = {**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=1.667)}
    full: dict[str, Any] = {
        "accounts": ACCOUNTS,
        "bandwidth": PUBLISHED,
        "timelines": [step("ddp", 3), step("fsdp2", 3), step("fsdp2-noreshard", 3)],
        "trends": trends_of(list(nights(20, 1))),
        "traces": ["trace of rank 0.json"],
        "shifts": ["gpt2-rehearsal: fsdp2/ddp memory at rest shifted +66.7% on 3 May 2026, when torch changed"],
    }
    return run_of(replace(NIGHT, seed=1, arms=slipped, stack=LATER), **{**full, **more})


ACCOUNTS = [
    Account(name="resident, ddp", unit="GiB", published=11.76, ledger=11.54, measured=11.7),
    Account(name="exposed communication, ddp", unit="ms", published=324, ledger=304, note="one message, no latency"),
]


def step(strategy: str, blocks: int) -> Timeline:
    """A made-up step: each block is gathered, computed and freed; DDP has nothing to gather."""
    spans, now = [], 0.0
    units = [f"block {i}" for i in range(blocks)]
    for kind, order in (("forward", units), ("backward", units[::-1])):
        for unit in order:
            if strategy != "ddp":
                spans.append(Span(lane="communication", kind="all-gather", unit=unit, start_ms=now, end_ms=now + 1))
                now += 1
            spans.append(Span(lane="compute", kind=kind, unit=unit, start_ms=now, end_ms=now + 3))
            now += 3
            spans.append(Span(lane="compute", kind="reshard", unit=unit, start_ms=now, end_ms=now))
    return Timeline(strategy=strategy, source="simulated", spans=tuple(spans))


def many_metrics(metrics: int) -> list[Measurement]:
    """Launches of so many workloads that they make at least so many comparisons: 6 a workload."""
    made: list[Measurement] = []
    for i in range(-(-metrics // 6)):
        workload = WORKLOAD.model_copy(update={"name": f"model-{i:03d}-with-a-rather-long-name"})
        made += replace(NIGHT, workload=workload, seed=i, launches=3).measurements()
    return made


def wide_run(metrics: int) -> Run:
    """A run with at least so many comparisons, half of them regressed."""
    measured = many_metrics(metrics)
    files = [accepted(replace(NIGHT, workload=m.workload, arms=CHEAPER)) for m in measured[:: 3 * len(ARMS)]]
    entries = {case: entry for file in files for case, entry in file.entries.items()}
    return Run(measured, compare(measured, files[0].model_copy(update={"entries": entries}), gate_times=True))


CHEAPER = {**ARMS, "fsdp2": Figures(1 << 30, 7 << 30, 280.0)}


def nights(count: int, workloads: int) -> list[Night]:
    """A history: 6 metrics a workload and night; the stack changes, and later FSDP2's step slips by 8%."""
    first = datetime(2026, 1, 1, 3, tzinfo=UTC)
    stacks = StoredStack(torch="2.13.0", nccl="2.27.5"), StoredStack(torch="2.14.1", nccl="2.28.3")
    templates = [[Night.of(_renamed(compared, i)) for i in range(workloads)] for compared in _quiet_and_slipped()]
    made = []
    for number in range(count):
        kept = [c for night in templates[number >= SLIP] for c in night.comparisons]
        shaken = tuple(
            c.model_copy(update={"ratio": c.ratio * (1 + 0.004 * ((number * 7 + i) % 5 - 2))})
            for i, c in enumerate(kept)
            if c.ratio is not None
        )
        made.append(
            templates[0][0].model_copy(
                update={
                    "id": f"{number:032x}",
                    "date": (first + timedelta(days=number)).isoformat(timespec="seconds"),
                    "stack": stacks[number >= NEW_STACK],
                    "comparisons": shaken,
                }
            )
        )
    return made


def _quiet_and_slipped() -> list[list[Comparison]]:
    slipped = replace(NIGHT, arms={**ARMS, "fsdp2": ARMS["fsdp2"].scaled(step=1.08)})
    baseline = accepted(NIGHT)
    return [compare(job.measurements(), baseline, gate_times=True) for job in (NIGHT, slipped)]


def _renamed(compared: Sequence[Comparison], number: int) -> list[Comparison]:
    if not number:
        return list(compared)
    return [
        c.model_copy(update={"case": Case(**{**c.case.model_dump(), "workload": f"{c.case.workload}-{number}"})})
        for c in compared
    ]


def keep_a_year(path: Path) -> None:
    """Write a history of ``YEAR`` nights x ``METRICS`` metrics."""
    for night in nights(YEAR, -(-METRICS // 6)):
        append_night(path, night.model_copy(update={"comparisons": night.comparisons[:METRICS]}))


def page_of_a_year(history: Path, page: Path, run: Run) -> int:
    """Read the history, make the page with its pictures and write it; returns its bytes."""
    read = read_nights(history)
    run = replace(run, trends=trends_of(read))
    text = render_page(run, pictures(run))
    write_page(page, text)
    return len(text.encode())


def main() -> None:
    """Print how long the page of a year takes, and how large it is."""
    with TemporaryDirectory() as folder:
        history = Path(folder) / "history.sqlite"
        keep_a_year(history)
        run = wide_run(METRICS)
        began, used = time.perf_counter(), time.process_time()
        size = page_of_a_year(history, Path(folder) / "report.html", run)
        seconds, used = time.perf_counter() - began, time.process_time() - used
    print(f"{YEAR} nights x {METRICS} metrics: {seconds:.2f} s ({used:.2f} s of this process), {size:,} bytes")


if __name__ == "__main__":
    main()
