"""Property: each message of a table is sent as often as it must be, with its bytes, and its slowest rank counts."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from fixtures.bandwidth import Bandwidth, BandwidthTable, Message
from fixtures.measurements import CollectiveTally
from fixtures.meters.bandwidth import table_of, time_messages
from fixtures.meters.collectives import CollectivesMeter
from fixtures.platforms import Platform, playing_rank

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(
    ("kind", "dtype", "given", "sent"),
    [
        ("all-reduce", "float32", 64, 64),
        ("all-gather", "bfloat16", 64, 64),
        ("reduce-scatter", "float32", 64, 64),
        ("reduce-scatter", "bfloat16", 1, 4),  # at least an element a rank
        ("all-reduce", "float32", 23, 16),  # 5 elements: a multiple of two ranks is 4
    ],
)
def test_a_message_is_sent_twice_to_warm_up_and_five_times_for_its_laps(
    kind: str, dtype: str, given: int, sent: int
) -> None:
    """With a barrier between; a multiple of N elements in its dtype."""
    with playing_rank(0, 2) as platform:
        meter = CollectivesMeter()
        meter.start()
        laps = time_messages([Message(kind=kind, dtype=dtype, bytes=given)], platform)
        tallies = meter.stop()
    assert [len(of_message) for of_message in laps] == [5]
    assert sorted(tallies, key=lambda tally: tally.kind == "barrier") == [
        CollectiveTally(kind=kind, dtype=dtype, count=7, bytes=7 * sent),
        CollectiveTally(kind="barrier", dtype="none", count=1, bytes=0),
    ]


def test_messages_are_timed_in_order() -> None:
    """Laps of each; an empty list sends nothing."""
    messages = [Message(kind="all-reduce", dtype="float32", bytes=size) for size in (8, 16)]
    with playing_rank(0, 2) as platform, CollectivesMeter() as meter:
        assert len(time_messages(messages, platform)) == 2
        sent = [event.bytes for event in meter.events if event.kind == "all-reduce"]
        assert time_messages([], platform) == []
    assert sent == [8] * 7 + [16] * 7


def test_a_row_is_what_was_sent_over_the_slowest_ranks_median_lap() -> None:
    """Two ranks, three laps, two messages: 4, 8 and 6 ms at most for 40 bytes of 43; 1, 2 and 3 for 4 of 1."""
    messages = [
        Message(kind="all-reduce", dtype="float32", bytes=43, use="first"),
        Message(kind="all-gather", dtype="bfloat16", bytes=1),
    ]
    laps = [[[4.0, 1.0, 6.0], [1.0, 2.0, 3.0]], [[3.0, 8.0, 5.0], [1.0, 1.0, 1.0]]]
    assert table_of(messages, laps, "paper") == BandwidthTable(
        source="paper",
        world_size=2,
        rows=[
            Bandwidth(kind="all-reduce", dtype="float32", bytes=40, use="first", gb_per_s=40 / 6e6),
            Bandwidth(kind="all-gather", dtype="bfloat16", bytes=4, gb_per_s=4 / 2e6),
        ],
    )


def test_ranks_with_other_messages_are_refused() -> None:
    """A lap that one rank does not have is no lap of all."""
    with pytest.raises(ValueError, match=r"zip\(\)"):
        table_of([Message(kind="all-reduce", dtype="float32", bytes=4)], [[[1.0, 2.0]], [[1.0]]], "paper")


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter"])
def test_buffers_lie_on_the_ranks_own_device(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """In the message's dtype: the whole, and a rank's piece of it. Here rank 1's device is meta."""
    sent: list[tuple[torch.Tensor, ...]] = []
    with playing_rank(1, 2) as platform:
        monkeypatch.setattr(Platform, "device", lambda _, rank: torch.device({1: "meta"}[rank]))
        for name in ("fixtures.meters.bandwidth.all_gather", "fixtures.meters.bandwidth.reduce_scatter"):
            monkeypatch.setattr(name, lambda *tensors: sent.append(tensors))
        monkeypatch.setattr(dist, "all_reduce", lambda *tensors: sent.append(tensors))
        time_messages([Message(kind=kind, dtype="bfloat16", bytes=16)], platform)
    numel = {"all-reduce": [8], "all-gather": [8, 4], "reduce-scatter": [4, 8]}[kind]
    assert {tuple((t.numel(), t.dtype, t.device.type) for t in tensors) for tensors in sent} == {
        tuple((n, torch.bfloat16, "meta") for n in numel)
    }
