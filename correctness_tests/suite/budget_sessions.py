"""Sessions of the cpu tier in a folder of their own: a check of each budget, what is accepted, scripted readings."""

from __future__ import annotations

import os

import pytest

from correctness_tests.suite.synthetic_budgets import TORCH13, accepted, reading
from fixtures.arm_budgets import ArmReading
from fixtures.gate.budget_files import budgets_path, render_budgets
from fixtures.gate.budgets import BudgetFile
from fixtures.measurements import WorkloadRecord
from fixtures.session.budgets import PLATFORM, Budgets

CHECKS = """
import pytest
from fixtures.session.budget_plugin import parametrize_budget
pytestmark = pytest.mark.cpu
def pytest_generate_tests(metafunc):
    parametrize_budget(metafunc, "{budget}", arms=["fsdp2"])
def test_{budget}(budgets, wanted):
    budgets.check(wanted)
"""
UPDATE = ("--update-baselines", "--reason", "torch 2.14")


class Session:
    """A folder with a check of each budget, what is accepted, and what is read in place of a real step."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.folder = pytester.path / "accepted"
        self.folder.mkdir()
        self.path = budgets_path(self.folder, PLATFORM.key)
        self.readings = {budget: reading(budget) for budget in ("traffic", "memory", "host")}
        self.faults: dict[str, str] = {}
        self.stack = TORCH13
        self.dirty = False
        pytester.makeini("[pytest]\nmarkers =\n  cpu: one tier\n  gpu: the other\n")
        pytester.makepyfile(**{f"test_{b}": CHECKS.format(budget=b) for b in self.readings})
        monkeypatch.setattr(Budgets, "reading", lambda budgets, workload, arm: self.read(workload))
        monkeypatch.setattr("fixtures.session.budgets.tried_reference", lambda workload, rehearse: workload)
        monkeypatch.setattr("fixtures.session.budgets.code_commit", lambda: ("abc1234", self.dirty))
        monkeypatch.setattr("fixtures.session.budgets.WORKLOADS", ("mlp",))

    def read(self, workload: str) -> ArmReading:
        """What a rank would hand back."""
        record = WorkloadRecord(name=workload, num_params=1000, tokens_per_batch=16, shape_hash="abc")
        return ArmReading(record, self.stack, {}, self.readings, self.faults)

    def accept(self, file: BudgetFile | None = None) -> bytes:
        """Store a file; its bytes."""
        self.path.write_text(render_budgets(file or accepted()))
        return self.path.read_bytes()

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run the checks."""
        given = ("-p", "fixtures.plugin", "-p", "no:randomly", "-m", "cpu", "--baselines", "accepted")
        return self.pytester.runpytest_inprocess(*given, *arguments)


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session that is no worker of xdist and not in CI, where updates are dry runs."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_XDIST_", "CI"))]:
        monkeypatch.delenv(name)
    return Session(pytester, monkeypatch)
