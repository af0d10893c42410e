"""Property: what an arm holds is compared buffer by buffer with what it held when its baseline was accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.errors import UsageError
from fixtures.gate.holdings import (
    Holdings,
    HoldingsFile,
    differences,
    evidence_lines,
    holdings_path,
    load_holdings,
    save_holdings,
    size,
)
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


def test_buffers_that_moved_most_come_first() -> None:
    """By bytes, whether more or less; equal moves by name; what did not move is left out."""
    moved = differences({"a": 5, "b": 30, "d": 7, "e": 9}, {"a": 5, "b": 10, "c": 40, "d": 2, "f": 5})
    assert list(moved.items()) == [("c", -40), ("b", 20), ("e", 9), ("d", 5), ("f", -5)]


def resident(**held: int) -> Holdings:
    """An arm that holds these bytes; ``x__y`` is ``x of unit y``."""
    return Holdings(resident={name.replace("__", " of unit "): by for name, by in held.items()}, peak={})


def test_buffers_that_grew_and_shrank_are_told_apart() -> None:
    """Units of one buffer that moved in opposite directions are not added up, and the sum says which way it went."""
    now, before = resident(g__a=3 * MIB, g__b=0), resident(g__a=0, g__b=MIB)
    assert evidence_lines("fsdp2", "resident", now, before) == [
        "fsdp2's resident grew by 2 MiB: g of a +3 MiB; g of b -1 MiB"
    ]
    assert evidence_lines("fsdp2", "resident", resident(g__a=1, g__b=2), resident(g__b=3)) == [
        "fsdp2's resident grew by 0 bytes: g of a +1 bytes; g of b -1 bytes"
    ]


def test_only_the_first_few_are_named() -> None:
    """Four buffers, and of one buffer four units: what follows is cut, and of units that is said."""
    many = resident(**{f"b{i}": i * MIB for i in range(1, 7)}, **{"x|y": 9 * MIB})
    assert evidence_lines("x", "resident", many, None)[0].startswith(
        "x holds, most first: x|y 9 MiB; b6 6 MiB; b5 5 MiB; b4 4 MiB ("
    )
    five, four = ({f"g__u{i}": MIB for i in range(count)} for count in (5, 4))
    assert "g of u0, u1, u2, u3, ... +5 MiB" in evidence_lines("x", "resident", resident(**five), resident())[0]
    assert evidence_lines("x", "resident", resident(**four), resident())[0].endswith("g of u0, u1, u2, u3 +4 MiB")


def test_a_time_has_no_buffers() -> None:
    """Behind a step time there are none: with no summary to compare with there is nothing to say."""
    assert AFTER.at("step") == {}
    assert evidence_lines("fsdp2", "step", AFTER, None) == []


def test_a_new_kind_of_message_is_told_against_none() -> None:
    """A collective that the baseline never sent was sent 0 times in it."""
    sent = resident().model_copy(update={"collectives": gathers(1)})
    assert evidence_lines("ddp", "resident", sent, resident()) == [
        "ddp sends in a step 1 all-gather bfloat16 of 1 MiB, 0 of 0 bytes in its baseline"
    ]


@pytest.mark.parametrize(
    ("number", "sign", "said"),
    [
        (MIB // 10, False, "104,857 bytes"),
        (MIB // 10 + 1, False, "0.1 MiB"),
        (-3 * MIB, False, "-3 MiB"),
        (1234567890, True, "+1.18e+03 MiB"),
        (1200, True, "+1,200 bytes"),
    ],
)
def test_sizes_are_for_a_reader(number: int, sign: bool, said: str) -> None:
    """MiB to three digits from a tenth of one on, bytes below; with a sign where a move is meant."""
    assert size(number, sign=sign) == said


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
    folder = tmp_path / "new" / "baselines"
    for arm, held in (("mlp/ddp", BEFORE), ("mlp/fsdp2", AFTER)):
        save_holdings(folder, HoldingsFile(platform="cpu-gloo-2", stack="torch", arms={arm: held}))
    found = load_holdings(folder, "cpu-gloo-2")
    assert found is not None
    assert found.arms == {"mlp/ddp": BEFORE, "mlp/fsdp2": AFTER}
    assert load_holdings(tmp_path, "cpu-gloo-4") is None


def test_a_broken_summary_is_written_anew(tmp_path: Path) -> None:
    """No verdict needs it, so an update does not stop at it; the arms stand in order."""
    path = holdings_path(tmp_path, "cpu-gloo-2")
    path.parent.mkdir()
    path.write_text("{")
    arms = {"mlp/fsdp2": AFTER, "mlp/ddp": BEFORE}
    assert save_holdings(tmp_path, HoldingsFile(platform="cpu-gloo-2", stack="torch", arms=arms)) == path
    found = load_holdings(tmp_path, "cpu-gloo-2")
    assert found is not None
    assert list(found.arms) == ["mlp/ddp", "mlp/fsdp2"]
    assert len(path.read_text().splitlines()) > 20  # a line a buffer, so that a diff shows what moved


def test_a_summary_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file where its folder should be is the user's to remove."""
    (tmp_path / "summaries").write_text("")
    with pytest.raises(UsageError, match=r"summaries"):
        save_holdings(tmp_path, HoldingsFile(platform="cpu-gloo-2", stack="torch", arms={}))


def test_a_broken_summary_is_named(tmp_path: Path) -> None:
    """The file and what is wrong with it, and that no verdict needs it."""
    path = holdings_path(tmp_path, "cpu-gloo-2")
    path.parent.mkdir()
    path.write_text('{"format": 1, "platform": "cpu-gloo-2", "stack": "x", "arms": {"a": {"resident": {"b": -1}}}}')
    with pytest.raises(UsageError) as caught:
        load_holdings(tmp_path, "cpu-gloo-2")
    assert str(caught.value) == (
        f"{path}: arms > a > resident > b (line 1): Input should be greater than or equal to 0 (and 1 more). The file "
        "was left as it is. Remove it (the verdicts do not need it)."
    )
