"""Loaded by pytest in the workplace of the mutants, instead of the suite's own plugin: no torch, no sessions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import hypothesis
import pytest

ELSEWHERE = {"pytester", "ranks", "rank_pools", "solo", "budgets", "job", "snapshot"}
"""Tests that want one of these need processes or sessions of their own: they are too dear to run for every mutant."""

DURATIONS = Path("mutmut-stats.json")

hypothesis.settings.register_profile(
    "mutation",
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=15,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("mutation")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs ranks or a session of its own; the quickest first, since the first failure ends the run."""
    left_out = [item for item in items if ELSEWHERE & set(getattr(item, "fixturenames", ()))]
    seconds = json.loads(DURATIONS.read_text(encoding="utf-8"))["duration_by_test"] if DURATIONS.exists() else {}
    items[:] = sorted(set(items) - set(left_out), key=lambda item: (seconds.get(item.nodeid, 0.0), item.nodeid))
    config.hook.pytest_deselected(items=left_out)
    if census := sys.modules.get("fixtures.meters.census"):
        vars(census)["WALLS"] += ("trampoline.py",)  # mutmut's own, through which it calls what it mutates
