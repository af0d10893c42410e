"""Training leaves nothing behind: what is resident after one steady step is resident after the next."""

from __future__ import annotations

import pytest

from fixtures.gate.comparisons import RANK0_ONLY
from fixtures.measurements import ALONE
from fixtures.session.job import Job
from fixtures.session.selection import each_arm

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("arm", each_arm(ALONE))
def test_resident_bytes_do_not_grow_from_step_to_step(job: Job, arm: str) -> None:
    """Every rank of every launch reads the same resident bytes after each inspected step: a leak shows at once."""
    launches = job.launches(arm)
    if any(RANK0_ONLY in launch.provenance.controls for launch in launches):
        pytest.skip("a CSV holds no bytes by step")
    grown = [
        f"launch {launch.launch} rank {rank.rank}: {rank.resident_by_step}"
        for launch in launches
        for rank in launch.ranks
        if len(set(rank.resident_by_step)) != 1
    ]
    assert not grown, (
        f"{arm} on {job.platform_key}: resident bytes after each inspected step differ:\n  "
        + "\n  ".join(grown[:8])
        + "\n"
        "Growth is a leak in the step: something keeps a reference to this step's tensors (a hook, a list of losses, a "
        "gathered parameter). More steps would take more memory, whatever the ratios say."
    )
