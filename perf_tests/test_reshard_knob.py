"""The reshard knob does what it says: without resharding, each block is gathered once a step and not twice."""

from __future__ import annotations

import pytest

from fixtures.job import Job
from fixtures.measurements import Measurement

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("pair", [("fsdp2-noreshard", "fsdp2")], ids=":".join)
def test_no_reshard_saves_one_gather_a_block(job: Job, pair: tuple[str, str]) -> None:
    """Resharding costs one more all-gather for every block, and none for the root, which is never resharded.

    Where no block is resharded, each unit (blocks, and the root if it has parameters of its own) is gathered once.
    """
    kept, resharded = (gathers(job.launches(arm)[0]) for arm in pair)
    if not kept and not resharded:
        pytest.skip("these results hold no collectives (a CSV has none)")
    assert resharded - kept in (kept - 1, kept), (
        f"{':'.join(pair)} on {job.platform_key}: {kept} all-gathers a step without reshard, {resharded} with it. "
        f"Expected one more for each block: {2 * kept - 1} (or {2 * kept}, when the root has no parameters). "
        "A block is gathered too often, or reshard_after_forward has no effect; see the collectives in the results."
    )


def gathers(launch: Measurement) -> int:
    """All-gathers of one steady step of rank 0."""
    return sum(tally.count for tally in launch.ranks[0].collectives if tally.kind == "all-gather")
