"""Try every kind of fault so many times: reported right, how soon, and what was left behind; and an exit status."""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from correctness_tests.suite.rank_faults.catalogue import FAULTS, LEFT_RUNNING
from correctness_tests.suite.rank_faults.owners import OWNER_FAULTS, try_owner_fault
from correctness_tests.suite.rank_faults.trial import Trial, try_fault, try_left_running
from fixtures.ranks import RankPools

WIDTH = 42


def main() -> int:
    """Print a line a kind; 1 when a trial was reported wrong, late, or left something behind."""
    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.rank_faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="trials of each kind (default: 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="kinds whose name has this text (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which pytest is ended (default: 0)")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell has started this in the background
    print(f"{'kind':{WIDTH}}  right      median s   max s  left behind")
    with RankPools() as pools, tempfile.TemporaryDirectory(prefix="shardgate-owners-") as folder:
        tries = _tries(pools, Path(folder), options.seed)
        lines = [
            _line(name, [attempt(run) for run in range(options.runs)])
            for name, attempt in tries.items()
            if options.only in name
        ]
    wrong = sum(not good for good, _ in lines)
    seconds = sorted(second for _, found in lines for second in found)
    if seconds:
        print(
            f"{len(lines)} kinds, {options.runs} trials each: median {statistics.median(seconds):.2f} s, "
            f"max {seconds[-1]:.2f} s, {wrong} kinds wrong"
        )
    return 1 if wrong else 0


def _tries(pools: RankPools, folder: Path, seed: int) -> dict[str, Callable[[int], Trial]]:
    """By name: what tries it once, given the number of the trial."""
    tries: dict[str, Callable[[int], Trial]] = {}
    for fault in FAULTS:
        tries[fault.name] = lambda run, fault=fault: try_fault(fault, pools)  # type: ignore[misc]
    for left in LEFT_RUNNING:
        tries[left.name] = lambda run, left=left: try_left_running(left, pools)  # type: ignore[misc]
    for owner in OWNER_FAULTS:
        tries[owner.name] = lambda run, owner=owner: try_owner_fault(  # type: ignore[misc]
            owner, folder / f"{owner.name}-{run}", random.Random(f"{seed} {owner.name} {run}")
        )
    return tries


def _line(name: str, trials: list[Trial]) -> tuple[bool, list[float]]:
    """Print what came of a kind; whether all was right, and the seconds of its trials."""
    right = sum(not trial.wrong for trial in trials)
    left = [thing for trial in trials for thing in trial.left_behind]
    seconds = [trial.seconds for trial in trials if trial.seconds is not None]
    times = f"{statistics.median(seconds):8.2f}  {max(seconds):6.2f}" if seconds else f"{'-':>8}  {'-':>6}"
    print(f"{name:{WIDTH}}  {right:3}/{len(trials):<4}  {times}  {', '.join(left) or 'nothing'}", flush=True)
    for trial in trials:
        if trial.wrong or trial.left_behind:
            print(f"    {'; '.join(trial.wrong)}\n{trial.message[:3000]}", flush=True)
    return right == len(trials) and not left, seconds


if __name__ == "__main__":
    sys.exit(main())
