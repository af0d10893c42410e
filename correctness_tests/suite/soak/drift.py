"""Whether a series of readings grows from round to round, by statistics that one odd round does not move. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import theilslopes

FEWEST = 6
"""Rounds after the settling ones that a verdict needs."""

CONFIDENCE = 0.99
"""Of the interval whose lower end must lie above what is allowed."""

MAY_GROW = {"KiB": 64.0, "objects": 100.0}
"""A round, by unit: pytest keeps a report of every test that it ran, and an allocator's pages move a little."""

MAY_SLOW_DOWN = 0.1
"""Share of a round's CPU time by which the last may be slower than the first. The clock is printed and not judged:
it tells what else the machine did."""


@dataclass(frozen=True)
class Drift:
    """One series: ``slope`` a round (Theil and Sen's, the median over all pairs of rounds) and whether it ``grows``."""

    name: str
    first: float
    last: float
    slope: float
    grows: bool


def settling(rounds: int) -> int:
    """Rounds at the beginning that fill caches and are not looked at."""
    return max(1, rounds // 5)


def drifts(readings: Sequence[Mapping[str, float]]) -> list[Drift]:
    """A drift for each series that every round has; ValueError for too few rounds to tell."""
    kept = readings[settling(len(readings)) :]
    if len(kept) < FEWEST:
        raise ValueError(f"{len(kept)} rounds after the settling ones, and {FEWEST} tell whether anything grows")
    names = [name for name in kept[0] if all(name in reading for reading in kept)]
    return [_drift(name, [reading[name] for reading in kept]) for name in names]


def _drift(name: str, values: Sequence[float]) -> Drift:
    slope, _, low, _ = map(float, theilslopes(values, alpha=CONFIDENCE))
    unit = name.rpartition(" ")[2]
    if name == "wall s":
        grows = False
    elif unit == "s":
        grows = low * len(values) > MAY_SLOW_DOWN * sorted(values)[len(values) // 2]
    elif unit in MAY_GROW:
        grows = low > MAY_GROW[unit]
    else:
        grows = rises(values)
    return Drift(name, values[0], values[-1], slope, grows)


def rises(values: Sequence[float]) -> bool:
    """Of a count: whether the last third lies wholly above the first, which no coming and going does."""
    third = max(1, len(values) // 3)
    return min(values[-third:]) > max(values[:third])
