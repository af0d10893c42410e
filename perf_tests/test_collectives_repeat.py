"""Every launch of an arm issues the same collectives: kind, dtype, count and bytes, on every rank."""

from __future__ import annotations

import pytest

from fixtures.job import Job
from fixtures.measurements import ARMS

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("arm", ARMS)
def test_collectives_are_the_same_in_every_launch(job: Job, arm: str) -> None:
    """What a steady step sends does not depend on the launch or the rank: a difference makes the ratios worthless."""
    seen = {
        tuple(rank.collectives): f"launch {launch.launch}, rank {rank.rank}"
        for launch in job.launches(arm)
        for rank in launch.ranks
    }
    if not any(seen):
        pytest.skip("these results hold no collectives (a CSV has none)")
    assert len(seen) == 1, f"{arm} on {job.platform_key}: the collectives of a step differ:\n" + "\n".join(
        f"  {where}: {list(collectives)}" for collectives, where in seen.items()
    )
