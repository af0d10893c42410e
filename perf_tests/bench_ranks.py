"""What a check on ranks costs: PyTorch's own two harnesses beside fresh ranks and a warm pool, measured in one run.

    python perf_tests/bench_ranks.py [--world-sizes 2 4 8] [--repeats 3]

Needs the extra ``bench``. The check: a 4-block MLP under FSDP2 and under DDP, one step each, every gradient compared.
Seconds vary with the machine and its load; the ratios of one run are what may be compared. Every harness gets one
thread a rank and loopback, and within a repeat they take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import unittest
from collections import defaultdict
from collections.abc import Callable
from typing import Any

LATER = 10
"""Checks on a warm pool, after the first."""

Seconds = dict[str, list[float]]

ROWS = {
    "spawn": "upstream, spawn a test: start, check, end",
    "their first": "upstream's pool: start, first check",
    "their later": "upstream's pool: later check",
    "their close": "upstream's pool: close",
    "fresh": "fresh ranks: start, check, close",
    "our first": "our pool: start, first check",
    "our later": "our pool: later check",
    "our close": "our pool: close",
}

TARGETS: tuple[tuple[str, str, str, float], ...] = (
    ("fresh ranks, cheaper than spawn", "spawn", "fresh", 9.0),
    ("warm pool, cheaper than spawn", "spawn", "our later", 18.0),
    ("warm pool, no dearer than upstream's", "their later", "our later", 1.0),
    ("closing, cheaper than upstream's", "their close", "our close", 20.0),
)
"""What is claimed, dearer, cheaper, and how many times at least."""


def timed(action: Callable[[], Any]) -> float:
    """Seconds of the call."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run_case(case: unittest.TestCase) -> None:
    """Run one of upstream's test cases; its failure is ours."""
    result = unittest.TestResult()
    case.run(result)
    if not result.wasSuccessful() or result.skipped or result.testsRun != 1:
        raise RuntimeError(f"upstream's harness failed: {result.errors or result.failures or result.skipped}")


def measure_spawn(seconds: Seconds, world_size: int) -> None:
    """Upstream's MultiProcessTestCase."""
    from perf_tests.upstream_checks import SpawnCheck

    os.environ["SHARDGATE_BENCH_WORLD_SIZE"] = str(world_size)
    seconds["spawn"].append(timed(lambda: run_case(SpawnCheck("test_check"))))


def measure_fresh(seconds: Seconds, world_size: int) -> None:
    """A pool of fresh ranks for one check."""
    from fixtures.platforms import Platform
    from fixtures.ranks import RankPool
    from perf_tests.rank_check import check_fsdp2_against_ddp

    def fresh() -> None:
        with RankPool(Platform.cpu(world_size)) as pool:
            pool.run(check_fsdp2_against_ddp)

    seconds["fresh"].append(timed(fresh))


def measure_pools(seconds: Seconds, world_size: int) -> None:
    """Upstream's MultiProcContinuousTest and our pool, both up at once, so that later checks can take turns."""
    from fixtures.platforms import Platform
    from fixtures.ranks import RankPool
    from perf_tests.rank_check import check_fsdp2_against_ddp
    from perf_tests.upstream_checks import PoolCheck

    PoolCheck.world_size = world_size
    PoolCheck._processes_spawned = False
    PoolCheck.setUpClass()
    seconds["their first"].append(timed(lambda: run_case(PoolCheck("test_check"))))
    began = time.perf_counter()
    pool = RankPool(Platform.cpu(world_size))
    pool.run(check_fsdp2_against_ddp)
    seconds["our first"].append(time.perf_counter() - began)
    for _ in range(LATER):
        seconds["their later"].append(timed(lambda: run_case(PoolCheck("test_check"))))
        seconds["our later"].append(timed(lambda: pool.run(check_fsdp2_against_ddp)))
    seconds["our close"].append(timed(pool.close))
    seconds["their close"].append(timed(PoolCheck.tearDownClass))


def start_fork_server() -> float:
    """Seconds until the fork server has preloaded and one rank has come and gone: paid once a session."""
    from fixtures.platforms import Platform
    from fixtures.ranks import RankPool

    return timed(lambda: RankPool(Platform.cpu(1)).close())


def report(measured: dict[int, Seconds]) -> bool:
    """Print seconds (median) and ratios; say whether every target is reached."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=100)
    table = Table(title="seconds, median (fastest)")
    table.add_column("cost of a check", no_wrap=True)
    for world_size in measured:
        table.add_column(f"{world_size} ranks", justify="right")
    for key, label in ROWS.items():
        samples = [seconds[key] for seconds in measured.values()]
        table.add_row(label, *(f"{statistics.median(s):.3f} ({min(s):.3f})" for s in samples))
    console.print(table)

    table = Table("times cheaper", "target", *(f"{n} ranks" for n in measured), title="ratios of the medians")
    reached = True
    for label, dearer, cheaper, target in TARGETS:
        ratios = [statistics.median(s[dearer]) / statistics.median(s[cheaper]) for s in measured.values()]
        reached = reached and min(ratios) >= target
        marked = (f"{ratio:.3g}" if ratio >= target else f"[bold red]{ratio:.3g} missed[/]" for ratio in ratios)
        table.add_row(label, f"{target:g}", *marked)
    console.print(table)
    return reached


def main() -> int:
    """Measure and print; exit status 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world-sizes", type=int, nargs="+", default=[2, 4, 8], metavar="N")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of each harness (default: %(default)s)")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    try:
        import expecttest  # noqa: F401
    except ImportError:
        print("bench_ranks needs PyTorch's own test harness: pip install -e '.[bench]'", file=sys.stderr)
        return 2
    print(f"fork server, once a session: {start_fork_server():.2f} s", flush=True)
    measured: dict[int, Seconds] = {world_size: defaultdict(list) for world_size in options.world_sizes}
    for repeat in range(options.repeats):
        for world_size, seconds in measured.items():
            for measure in (measure_spawn, measure_fresh, measure_pools):
                measure(seconds, world_size)
            print(f"repeat {repeat + 1} of {options.repeats}: {world_size} ranks done", flush=True)
    return 0 if report(measured) else 1


if __name__ == "__main__":
    sys.exit(main())
