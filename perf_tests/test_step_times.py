"""The step time of one arm relative to another stays within 10% of the accepted ratio; each arm's times are recorded.

In a rehearsal the ratios are shown and not gated: gloo ranks on a few cores say nothing about a GPU's step time. Nor
are they on the platform solo, where nothing is communicated.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fixtures.gate.comparisons import RANK0_ONLY
from fixtures.measurements import ALONE
from fixtures.report.benchmarks import RecordedClock, arm_info
from fixtures.session.job import Job
from fixtures.session.selection import each_arm, each_pair

pytestmark = pytest.mark.gpu

RANKS_CLOCK = RecordedClock()


@pytest.mark.parametrize(("pair", "metric"), each_pair("step"))
def test_step_time_ratio(job: Job, pair: tuple[str, str], metric: str) -> None:
    """The median over steps of the slowest rank's time did not move against the other arm (shown only, rehearsing)."""
    job.check(pair, metric)


@pytest.mark.benchmark(group="step time", timer=RANKS_CLOCK)
@pytest.mark.parametrize("arm", each_arm(ALONE))
def test_step_time(job: Job, arm: str, benchmark: BenchmarkFixture) -> None:
    """Each launch has its timed steps from each rank; they are replayed into pytest-benchmark's tables and JSON."""
    launches = job.launches(arm)
    for launch in launches:
        if RANK0_ONLY in launch.provenance.controls:
            continue  # a row of the experiment's CSV: one figure, which the reader has checked
        counts = {rank.rank: len(rank.step_ms) for rank in launch.ranks}
        expected = dict.fromkeys(range(launch.platform.processes), launch.settings.timed_steps)
        assert counts == expected, f"{arm}, launch {launch.launch}: timed steps by rank {counts}, expected {expected}"
    RANKS_CLOCK.replay(benchmark, launches, extra_info=arm_info(launches, job.comparisons))
