"""The history's heavy figures, at full size: ``python -m correctness_tests.suite.history_figures``, about two minutes.

How often a shift that stays is found, and how often nothing is called one; whether concurrent and killed writers lose
a night; how long a year takes to read. A night's ratio has the noise of docs/noise-and-power.md: 6 pairs
of launches and what nights differ by, 1.15% on a quiet machine and 2.53% on a noisy one; or the same with the tails of
Student's t(4). The cpu tier runs the same functions small, in ``test_history_changes.py`` and
``test_history_store.py``.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from correctness_tests.suite.nights import concurrent_writers, drifting, killed_writers, night, template
from fixtures.history import append_night, read_nights
from fixtures.history.changes import STRETCH, Series, changes, cuts, sentence

QUIET, NOISY = (math.hypot(launch / math.sqrt(6), night) for launch, night in ((0.0213, 0.0075), (0.05, 0.015)))
NOISES = ("normal", "Student t(4)")
BEFORE = 60
NEAR = 2


def drawn(rng: np.random.Generator, noise: str, sd: float, nights: int) -> Series:
    """Log ratios of so many nights on which nothing changed, with this standard deviation."""
    return rng.normal(0.0, sd, nights) if noise == "normal" else sd / math.sqrt(2) * rng.standard_t(4, nights)


def found(noise: str, sd: float, shift: float, after: int, tries: int, seed: int = 1) -> float:
    """How often a shift that came after 60 nights is found, within 2 nights of where it was, so many nights later."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(tries):
        values = drawn(rng, noise, sd, BEFORE + after)
        values[BEFORE:] += math.log1p(shift)
        hits += any(abs(cut - BEFORE) <= NEAR for cut in cuts(values))
    return hits / tries


def false_alarms(noise: str, sd: float, years: int, seed: int = 1, nights: int = 365) -> float:
    """Shifts told of one metric in a year without any, by somebody who looks every morning at all nights so far."""
    rng = np.random.default_rng(seed)
    alarms = 0
    for _ in range(years):
        values = drawn(rng, noise, sd, nights)
        told = sorted({cut for upto in range(8, nights + 1) for cut in cuts(values[:upto]) if upto - cut <= 30})
        alarms += sum(cut - last > STRETCH for last, cut in zip([-99, *told], told, strict=False))
    return alarms / years


def named(sd: float, shift: float, after: int, tries: int, seed: int = 1) -> float:
    """How often a shift that is told is put down to the upgrade that brought it, so many nights later."""
    rng = np.random.default_rng(seed)
    old, new = (template().stack.model_copy(update={"nccl": nccl}) for nccl in ("2.27.5", "2.28.3"))
    told = right = 0
    for _ in range(tries):
        values = drawn(rng, "normal", sd, BEFORE + after)
        values[BEFORE:] += math.log1p(shift)
        for change in changes(drifting(values.tolist(), {0: old, BEFORE: new})):
            told += 1
            right += "NCCL changed" in sentence(change)
    return right / told


def year_of_nights(path: Path, comparisons: int = 40, nights: int = 365) -> float:
    """CPU seconds to read a year of nights of so many comparisons, and to find what shifted."""
    (one, *_) = template().comparisons
    cases = [one.case.model_copy(update={"workload": f"w{number}"}) for number in range(comparisons)]
    made = tuple(one.model_copy(update={"case": case}) for case in cases)
    for number in range(nights):
        append_night(path, night(number).model_copy(update={"comparisons": made}))
    began = time.process_time()
    changes(read_nights(path))
    return time.process_time() - began


def _store(writers: int, kills: int) -> bool:
    """Print what the file keeps under concurrent and killed writers; True when it lost something."""
    with tempfile.TemporaryDirectory() as folder:
        kept = len(concurrent_writers(Path(folder, "a.sqlite"), writers, 10))
        print(f"{writers} writers at once, 10 nights each: {kept} nights kept", flush=True)
        lost = nights = 0
        for promised, read in killed_writers(Path(folder, "b.sqlite"), kills):
            lost += len(read) < promised or read != [night(number) for number in range(len(read))]
            nights = len(read)
        print(f"{kills} writers killed: {lost} times a night was lost or torn, {nights} nights kept", flush=True)
        seconds = year_of_nights(Path(folder, "c.sqlite"))
        print(f"365 nights of 40 comparisons: read, and shifts found, in {seconds:.1f} s of CPU time", flush=True)
    return kept != 10 * writers or lost > 0


def main() -> int:
    """Print every figure; exit status 1 when one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tries", type=int, default=1000, metavar="COUNT", help="histories a cell, %(default)s")
    parser.add_argument("--years", type=int, default=60, metavar="COUNT", help="years without a change, %(default)s")
    parser.add_argument("--writers", type=int, default=32, metavar="COUNT", help="processes at once, %(default)s")
    parser.add_argument("--kills", type=int, default=200, metavar="COUNT", help="writers killed, %(default)s")
    options = parser.parse_args()
    missed = _store(options.writers, options.kills)
    for name, sd in (("quiet", QUIET), ("noisy", NOISY)):
        for noise in NOISES:
            seen = {after: found(noise, sd, 0.04, after, options.tries) for after in (3, 5, 7, 10, 14, 20, 30)}
            cells = ", ".join(f"{after}: {share:.1%}" for after, share in seen.items())
            print(f"4% found, {name} ({sd:.2%} a night), {noise}, by nights since: {cells}", flush=True)
            wolf = false_alarms(noise, sd, options.years)
            print(f"  shifts told where there is none: {wolf:.2f} a year and metric", flush=True)
            missed |= wolf > (0.3 if noise == "normal" else 1.0) or (name == "quiet" and seen[7] < 0.95)
        share = named(sd, 0.04, 14, options.tries // 5)
        print(f"  put down to the upgrade that brought it, 14 nights later: {share:.1%} of those told", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
