"""A steady step sends what it must and nothing else: the same in every launch and rank, and what the ledger says."""

from __future__ import annotations

import pytest

from fixtures import ledger
from fixtures.gate.comparisons import RANK0_ONLY
from fixtures.measurements import ALONE, CollectiveTally, Measurement
from fixtures.session.job import Job
from fixtures.session.selection import each_arm

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("arm", each_arm())
def test_collectives_are_the_same_everywhere(job: Job, arm: str) -> None:
    """Kind, dtype, bytes and order do not depend on the launch or the rank: a difference makes the ratios worthless."""
    seen: dict[tuple[str, tuple[CollectiveTally, ...]], list[str]] = {}
    for launch in measured(job, arm):
        for rank in launch.ranks:
            where = f"launch {launch.launch} rank {rank.rank}"
            seen.setdefault((rank.messages, tuple(rank.collectives)), []).append(where)
    assert "" not in [order for order, _ in seen], (
        f"{arm} on {job.platform_key}: a rank has no record of its collectives"
    )
    assert len(seen) == 1, (
        f"{arm} on {job.platform_key}: the collectives of a step, or their order, differ:\n"
        + "\n".join(
            f"  {', '.join(places)}: {shown(tallies)}, order {order}" for (order, tallies), places in seen.items()
        )
    )


@pytest.mark.parametrize("arm", each_arm())
def test_collectives_are_the_ledgers(job: Job, arm: str) -> None:
    """Count, dtype and bytes are what the parameter shapes and N demand; of DDP the bytes, since buckets set the count.

    A model of your own may use a block twice or recompute it, and then gathers more with good reason: not checked.
    """
    launch = measured(job, arm)[0]
    known = launch.ranks[0].ledger_collectives
    if not known:
        pytest.skip(
            f"{launch.workload.name} is not the suite's own: the ledger does not know how often a block is used"
        )
    read = ledger.comparable(arm, launch.ranks[0].collectives)
    assert read == known, (
        f"{arm} on {job.platform_key}: the collectives of one steady step are not the ledger's.\n"
        f"  measured {shown(read)}\n  ledger   {shown(known)}\n"
        "A gather more or less is a block gathered twice, or a reshard lost or added; other bytes are a dtype or a "
        "padding that changed. See the collectives of each rank in the results."
    )


@pytest.mark.parametrize("arm", [ALONE])
def test_one_device_alone_sends_nothing(job: Job, arm: str) -> None:
    """No collective in any steady step of the arm that stands for computation alone: its time is that."""
    sent = {
        f"launch {launch.launch} rank {rank.rank}: {shown(rank.collectives)}"
        for launch in measured(job, arm)
        for rank in launch.ranks
        if rank.collectives
    }
    assert not sent, (
        f"{arm} on {job.platform_key}: every rank trains by itself, and yet\n  " + "\n  ".join(sorted(sent)[:8]) + "\n"
        "What DDP's step takes beyond this arm's is no longer its communication: the account of it means nothing."
    )


@pytest.mark.parametrize("pair", [("fsdp2-noreshard", "fsdp2")], ids=":".join)
def test_no_reshard_gathers_less(job: Job, pair: tuple[str, str]) -> None:
    """Without resharding a block is not gathered again in backward; a knob without effect moves a small peak little."""
    kept, resharded = (
        sum(tally.count for tally in measured(job, arm)[0].ranks[0].collectives if tally.kind == "all-gather")
        for arm in pair
    )
    assert kept < resharded, (
        f"{':'.join(pair)} on {job.platform_key}: {kept} all-gathers a step without reshard and {resharded} with it: "
        "reshard_after_forward has no effect on one of the arms."
    )


def measured(job: Job, arm: str) -> list[Measurement]:
    """The arm's launches; skips for rows of a CSV, which hold no collectives."""
    launches = job.launches(arm)
    if any(RANK0_ONLY in launch.provenance.controls for launch in launches):
        pytest.skip("a CSV holds no collectives")
    return launches


def shown(tallies: list[CollectiveTally] | tuple[CollectiveTally, ...]) -> str:
    """Tallies as a line."""
    return "; ".join(f"{t.count} {t.kind} {t.dtype} {t.bytes} bytes" for t in tallies) or "none"
