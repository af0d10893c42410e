"""Property: what an arm holds is compared buffer by buffer with what it held when its baseline was accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.errors import UsageError
from fixtures.gate.holdings import Holdings, HoldingsFile, evidence_lines, holdings_path, load_holdings, save_holdings
from fixtures.measurements import CollectiveTally

pytestmark = pytest.mark.cpu

MIB = 2**20


def gathers(count: int) -> list[CollectiveTally]:
    """So many gathers of 1 MiB."""
    return [CollectiveTally(kind="all-gather", dtype="bfloat16", count=count, bytes=count * MIB)]


BEFORE = Holdings(
    resident={"parameters": MIB}, peak={"parameters": MIB, "gathered units of unit b.0": MIB}, collectives=gathers(2)
)
AFTER = Holdings(
    resident={"parameters": MIB, "gathered units of unit b.0": MIB, "gathered units of unit b.1": MIB},
    peak={"parameters": MIB},
    collectives=gathers(3),
)


def test_what_grew_is_named_with_its_units() -> None:
    """Units of one buffer are told together, and collectives whose number moved."""
    assert evidence_lines("fsdp2", "resident", AFTER, BEFORE) == [
        "fsdp2's resident grew by 2 MiB: gathered units of b.0, b.1 +2 MiB",
        "fsdp2 sends in a step 3 all-gather bfloat16 of 3 MiB, 2 of 2 MiB in its baseline",
    ]


def test_what_shrank_is_named() -> None:
    """A better figure has evidence too; what an allocator reserves follows the peak."""
    assert evidence_lines("fsdp2", "reserved", AFTER, BEFORE)[0] == (
        "fsdp2's reserved shrank by 1 MiB: gathered units of b.0 -1 MiB"
    )


def test_nothing_moved_is_said() -> None:
    """An arm that holds and sends what it did says so, whatever its ratio did."""
    assert evidence_lines("ddp", "peak", BEFORE, BEFORE) == [
        "ddp: no buffer and no collective moved against its baseline's summary"
    ]


def test_without_a_summary_the_largest_are_listed() -> None:
    """There is nothing to compare with, and that is said."""
    assert evidence_lines("fsdp2", "resident", AFTER, None) == [
        "fsdp2 holds, most first: gathered units of b.0, b.1 2 MiB; parameters 1 MiB (no summary of its baseline to "
        "compare with)"
    ]


def test_a_summary_is_kept_arm_by_arm(tmp_path: Path) -> None:
    """An update of one arm leaves the others' summaries as they are."""
    for arm, held in (("mlp/ddp", BEFORE), ("mlp/fsdp2", AFTER)):
        save_holdings(tmp_path, HoldingsFile(platform="cpu-gloo-2", stack="torch", arms={arm: held}))
    found = load_holdings(tmp_path, "cpu-gloo-2")
    assert found is not None
    assert found.arms == {"mlp/ddp": BEFORE, "mlp/fsdp2": AFTER}
    assert load_holdings(tmp_path, "cpu-gloo-4") is None


def test_a_broken_summary_is_named(tmp_path: Path) -> None:
    """The file and what is wrong with it, and that no verdict needs it."""
    path = holdings_path(tmp_path, "cpu-gloo-2")
    path.parent.mkdir()
    path.write_text('{"format": 1, "platform": "cpu-gloo-2", "stack": "x", "arms": {"a": {"resident": {"b": -1}}}}')
    with pytest.raises(UsageError, match=r"cpu-gloo-2\.json.*verdicts do not need it"):
        load_holdings(tmp_path, "cpu-gloo-2")
