"""The memory of one arm relative to another stays within 10% of the accepted ratio, on both sides.

Resident is what an arm keeps between steps, peak the most it held at once within a step, reserved the most that the
caching allocator took from the device; each is the maximum over ranks.
"""

from __future__ import annotations

import pytest

from fixtures.session.job import Job
from fixtures.session.selection import each_pair

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("pair", "metric"), each_pair("resident", "peak", "reserved"))
def test_memory_ratio(job: Job, pair: tuple[str, str], metric: str) -> None:
    """The bytes of the first arm, relative to the second's in the same job, did not move against the baseline."""
    if not job.measures(metric):
        pytest.skip(f"{job.platform_key} has no {metric} memory: there is no caching allocator")
    job.check(pair, metric)
