"""Judging needs neither torch nor pytest: a laptop, or a job after the GPU job, gives the same verdicts."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu

MODULES = [
    "fixtures.accounts",
    "fixtures.bandwidth",
    "fixtures.extras",
    "fixtures.gate.baselines",
    "fixtures.gate.budget_files",
    "fixtures.gate.budget_proposals",
    "fixtures.gate.budget_verdicts",
    "fixtures.gate.budgets",
    "fixtures.gate.cases",
    "fixtures.gate.comparisons",
    "fixtures.gate.entries",
    "fixtures.gate.holdings",
    "fixtures.gate.migration",
    "fixtures.gate.networks",
    "fixtures.gate.night",
    "fixtures.gate.noise",
    "fixtures.gate.pairing",
    "fixtures.gate.patterns",
    "fixtures.gate.power",
    "fixtures.gate.proposals",
    "fixtures.gate.sequential",
    "fixtures.gate.shelves",
    "fixtures.gate.statistics",
    "fixtures.gate.store",
    "fixtures.gate.strict_json",
    "fixtures.gate.time_limit",
    "fixtures.gate.upgrade",
    "fixtures.gate.verdicts",
    "fixtures.history.changes",
    "fixtures.history.exports",
    "fixtures.history.records",
    "fixtures.history.schema",
    "fixtures.history.store",
    "fixtures.job_accounts",
    "fixtures.ledger",
    "fixtures.ledger.alone",
    "fixtures.ledger.bookkeeping",
    "fixtures.lanes",
    "fixtures.machine_accounts",
    "fixtures.measurements",
    "fixtures.reconciliation",
    "fixtures.report.__main__",
    "fixtures.report.accounts",
    "fixtures.report.bandwidth",
    "fixtures.report.budgets",
    "fixtures.report.csvfile",
    "fixtures.report.evidence_lines",
    "fixtures.report.gallery",
    "fixtures.report.grids",
    "fixtures.report.header",
    "fixtures.report.judged",
    "fixtures.report.markdown",
    "fixtures.report.messages",
    "fixtures.report.movement",
    "fixtures.report.page_accounts",
    "fixtures.report.pages.evidence",
    "fixtures.report.pages.headline",
    "fixtures.report.pages.page",
    "fixtures.report.pages.plots",
    "fixtures.report.pages.rows",
    "fixtures.report.pages.run",
    "fixtures.report.pictures.bandwidth",
    "fixtures.report.pictures.geometry",
    "fixtures.report.pictures.knob",
    "fixtures.report.pictures.memory",
    "fixtures.report.pictures.scale",
    "fixtures.report.pictures.padding",
    "fixtures.report.pictures.style",
    "fixtures.report.pictures.timeline",
    "fixtures.report.pictures.trend",
    "fixtures.report.parts",
    "fixtures.report.results",
    "fixtures.report.scale",
    "fixtures.report.rows",
    "fixtures.report.simulation",
    "fixtures.report.steps",
    "fixtures.report.stored",
    "fixtures.report.summary",
    "fixtures.report.tables",
    "fixtures.report.text",
    "fixtures.report.traces",
    "fixtures.report.trends",
    "fixtures.report.upgrade_budgets",
    "fixtures.report.upgrades",
    "fixtures.scaling",
    "fixtures.simulation.buckets",
    "fixtures.simulation.choreography",
    "fixtures.simulation.costs",
    "fixtures.simulation.network",
    "fixtures.simulation.published",
    "fixtures.simulation.rules",
    "fixtures.simulation.scaling",
    "fixtures.simulation.specs",
    "fixtures.simulation.streams",
    "fixtures.timelines",
]


CODE = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if loaded := sorted({"torch", "pytest", "_pytest"} & sys.modules.keys()):
        sys.exit(f"importing {name} loads {', '.join(loaded)}")
"""


def test_judging_imports_neither_torch_nor_pytest() -> None:
    """A fresh interpreter that imports all that judging needs has loaded neither."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *MODULES], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
