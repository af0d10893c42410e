"""The memory of one arm relative to another stays within 10% of the accepted ratio, on both sides."""

from __future__ import annotations

import pytest

from fixtures.job import Job
from fixtures.measurements import PAIRS

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("perf")]


@pytest.mark.parametrize("pair", PAIRS, ids=":".join)
def test_resident_memory(job: Job, pair: tuple[str, str]) -> None:
    """Bytes allocated after the steps: what an arm keeps between steps did not move against the other arm."""
    job.check(pair, "resident")


@pytest.mark.parametrize("pair", PAIRS, ids=":".join)
def test_peak_memory(job: Job, pair: tuple[str, str]) -> None:
    """Most bytes allocated at once within a step did not move against the other arm."""
    job.check(pair, "peak")


@pytest.mark.parametrize("pair", PAIRS, ids=":".join)
def test_reserved_memory(job: Job, pair: tuple[str, str]) -> None:
    """Most bytes that the caching allocator took from the device did not move against the other arm."""
    if not job.measures("reserved"):
        pytest.skip("no caching allocator on the CPU: nothing is reserved")
    job.check(pair, "reserved")
