"""Judging needs neither torch nor pytest: a laptop, or a job after the GPU job, gives the same verdicts."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu

MODULES = [
    *(f"fixtures.{m}" for m in ["measurements", "accounts", "bandwidth", "timelines", "ledger"]),
    *(f"fixtures.simulation.{m}" for m in ["streams", "rules", "specs", "buckets", "choreography"]),
    *(
        f"fixtures.gate.{m}"
        for m in [
            "statistics",
            "noise",
            "verdicts",
            "sequential",
            "power",
            "cases",
            "strict_json",
            "entries",
            "migration",
            "baselines",
            "store",
            "pairing",
            "comparisons",
            "proposals",
            "upgrade",
        ]
    ),
    *(f"fixtures.history.{m}" for m in ["records", "schema", "store", "changes", "exports"]),
    *(f"fixtures.report.{m}" for m in ["text", "messages", "tables", "csvfile", "results", "judged", "upgrades"]),
    *(f"fixtures.report.pictures.{m}" for m in ["style"]),
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
