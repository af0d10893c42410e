"""Judges stored results end to end: the nightly's own checks in a folder of their own, with a baseline."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from correctness_tests.suite.synthetic import ARMS, Job, accepted
from fixtures.gate.baselines import BaselineFile, render
from fixtures.measurements import PlatformRecord
from fixtures.report.results import save_results

ROOT = Path(__file__).resolve().parents[2]
GPUS = PlatformRecord(device_type="cuda", backend="nccl", world_size=8, machine="test-gpu")
NIGHT = Job(platform=GPUS, own_sd=0.005, shared_sd=0.005)
CHECKS = "".join(
    f"from perf_tests.{module} import *\n"
    for module in ("test_memory_ratios", "test_step_times", "test_collectives", "test_no_growth")
)


class Judge:
    """A folder with the nightly's checks, stored results and a baseline; ``run`` judges them."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.results, self.baselines = pytester.path / "stored", pytester.path / "accepted"
        pytester.makeini("[pytest]\nmarkers =\n  cpu: one tier\n  gpu: the other\n")
        pytester.makepyfile(test_night=CHECKS)
        self.accept(accepted(NIGHT))

    def accept(self, file: BaselineFile) -> None:
        """Store a baseline."""
        self.baselines.mkdir(exist_ok=True)
        (self.baselines / f"{file.platform.key}.json").write_text(render(file))

    def run(self, job: Job, *arguments: str) -> pytest.RunResult:
        """Store the job's launches and judge them."""
        save_results(self.results, job.measurements())
        return self.judge(*arguments)

    def judge(self, *arguments: str) -> pytest.RunResult:
        """Judge what is stored."""
        given = ("-p", "fixtures.plugin", "-m", "gpu", "-rs", "--from-results", "stored", "--baselines", "accepted")
        return self.pytester.runpytest_inprocess(*given, *arguments)


@pytest.fixture
def judge(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A judge with the baseline of a quiet night; not a worker of xdist, even where this test is run by one."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("CI", raising=False)  # where updates are dry runs
    return Judge(pytester)


def slipped(arm: str, **factors: float) -> Job:
    """Another night (other noise) on which one arm slipped by these factors."""
    return replace(NIGHT, seed=1, arms={**ARMS, arm: ARMS[arm].scaled(**factors)})


def told_command(result: pytest.RunResult) -> list[str]:
    """The words, after ``pytest`` and its tests, of the command that ends a session which failed."""
    start = result.outlines.index("to accept what failed, when it is meant:") + 1
    lines = [line for line in result.outlines[start:] if line.startswith("  ")]
    return shlex.split(" ".join(lines).replace("\\ ", ""))[2:]


FAILING_BESIDE = "import pytest\n@pytest.mark.cpu\ndef test_plain():\n    assert 'the sun' == 'the moon'\n"
"""A test outside the job, which fails."""
STALE_BUDGET = """
from fixtures.session.budgets import BudgetSummary
def pytest_collection_finish(session):
    budgets = session.config.pluginmanager.get_plugin("shardgate-budgets")
    budgets.summaries.append(BudgetSummary(lines=[], complaints=["stale: no test has this budget"]))
"""
"""A conftest of a session whose budgets complain."""
INTERRUPTED = """
import pytest
def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        pytest.exit("enough", 7)
"""
"""A conftest that ends the session after its first check that ran, when every comparison has been judged."""
