"""The gate's heavy figures, at full size: ``python -m correctness_tests.suite.gate_figures`` (a few minutes).

Coverage of the 95% interval, concurrent updaters, updates killed at a random moment, a thousand stored cases judged.
The cpu tier runs the same functions small, in ``test_gate_figures.py``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from correctness_tests.suite.synthetic import ARMS, WORKLOAD, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import BaselineFile, load_baseline, render, write_baseline
from fixtures.gate.comparisons import compare
from fixtures.gate.statistics import paired_ratio
from fixtures.measurements import Measurement
from fixtures.report.results import load_results, save_results

FORK = multiprocessing.get_context("fork")
OLD = accepted()
NEW = accepted(Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=1.05)}))
NOISES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(0.0, 0.02, n),
    "Student t(3)": lambda rng, n: 0.02 * rng.standard_t(3, n),
}


def coverage(noise: str, pairs: int, nights: int, seed: int = 1) -> float:
    """How often the 95% interval of so many pairs holds the true ratio."""
    rng = np.random.default_rng(seed)
    held = 0
    for _ in range(nights):
        found = paired_ratio(np.exp(NOISES[noise](rng, pairs)).tolist(), [1.0] * pairs)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.0 <= found.high
    return held / nights


def add_case(directory: Path, name: str) -> None:
    """One updater: add an entry of its own, again and again until nobody was faster."""
    mine = OLD.entries["gpt2-rehearsal/fsdp2:ddp/resident"]
    while True:
        old = load_baseline(directory / "cpu-gloo-4.json")
        new = old.model_copy(update={"entries": {**old.entries, f"{name}/fsdp2:ddp/resident": mine}})
        try:
            write_baseline(directory, new, replaces=old, timeout_s=300)
        except UsageError as error:
            if "changed since" not in str(error):
                raise
            continue
        return


def concurrent_updaters(directory: Path, count: int) -> BaselineFile:
    """Let so many processes update one file at once, reading it all the while; returns what it holds in the end."""
    path = write_baseline(directory, OLD, replaces=None)
    updaters = [FORK.Process(target=add_case, args=(directory, f"w{i}")) for i in range(count)]
    for updater in updaters:
        updater.start()
    while any(updater.is_alive() for updater in updaters):
        load_baseline(path)  # raises for a torn file
        time.sleep(0.01)
    for updater in updaters:
        updater.join()
    assert all(updater.exitcode == 0 for updater in updaters)
    return load_baseline(path)


def _write_for_ever(directory: Path) -> None:
    while True:
        for before, after in ((OLD, NEW), (NEW, OLD)):
            if load_baseline(directory / "cpu-gloo-4.json") == load_back(before):
                write_baseline(directory, after, replaces=before)


def load_back(file: BaselineFile) -> BaselineFile:
    """The file as it loads: with 6 digits."""
    return BaselineFile.model_validate_json(render(file))


def killed_updates(directory: Path, kills: int, seed: int = 1) -> Iterator[str]:
    """SIGKILL an updater at a random moment, so many times; yields what the file holds after each."""
    draw = random.Random(seed)
    path = write_baseline(directory, OLD, replaces=None)
    for _ in range(kills):
        before = path.stat().st_mtime_ns
        updater = FORK.Process(target=_write_for_ever, args=(directory,))
        updater.start()
        while path.stat().st_mtime_ns == before and updater.is_alive():
            time.sleep(0.0005)  # it is at work
        time.sleep(draw.uniform(0.0, 0.03))
        assert updater.pid is not None
        os.kill(updater.pid, signal.SIGKILL)
        updater.join()
        yield path.read_text()


def many_cases(count: int) -> list[Measurement]:
    """Launches that make at least so many comparisons, of as many workloads as it takes (6 a workload)."""
    made: list[Measurement] = []
    for index in range(-(-count // 6)):
        workload = WORKLOAD.model_copy(update={"name": f"w{index}"})
        made += Job(own_sd=0.01, workload=workload, seed=index).measurements()
    return [m.model_copy(update={"order": order}) for order, m in enumerate(made)]


def judge_stored(directory: Path, count: int) -> tuple[int, float, float]:
    """Store, load and judge so many cases; returns how many, CPU seconds to judge, and to load."""
    measurements = many_cases(count)
    save_results(directory, measurements)
    entries = accepted().entries
    baseline = OLD.model_copy(
        update={
            "entries": {
                case_id.replace("gpt2-rehearsal", m.workload.name): entry
                for m in measurements[::18]
                for case_id, entry in entries.items()
            }
        }
    )
    began = time.process_time()
    loaded = load_results(directory)
    between = time.process_time()
    judged = compare(loaded, baseline, gate_times=True)
    return len(judged), time.process_time() - between, between - began


def main() -> int:
    """Print every figure; exit status 1 when one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, default in (("nights", 10_000), ("updaters", 100), ("kills", 200), ("cases", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="COUNT", help="default: %(default)s")
    options = parser.parse_args()
    missed = False
    for noise in NOISES:
        found = {pairs: coverage(noise, pairs, options.nights) for pairs in range(3, 13)}
        missed |= not all(0.93 <= held <= 0.97 for held in found.values())
        print(f"coverage, {noise}: " + ", ".join(f"{pairs}: {held:.1%}" for pairs, held in found.items()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kept = len(concurrent_updaters(Path(folder, "a"), options.updaters).entries) - len(OLD.entries)
        print(f"{options.updaters} updaters at once: {kept} updates kept", flush=True)
        texts = list(killed_updates(Path(folder, "b"), options.kills))
        old, new = texts.count(render(OLD)), texts.count(render(NEW))
        print(f"{options.kills} kills: {old} times the old file, {new} the new, {len(texts) - old - new} another")
        count, judging, loading = judge_stored(Path(folder, "c"), options.cases)
        print(f"{count} stored cases: loaded in {loading:.2f} s of CPU time, judged in {judging:.2f} s")
    missed |= kept != options.updaters or old + new != options.kills or judging >= 2
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
