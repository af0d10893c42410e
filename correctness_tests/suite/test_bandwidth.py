"""Property: the bandwidth table holds what the slowest rank took for the messages that were really sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.bandwidth import PUBLISHED, Bandwidth, BandwidthTable, Message
from fixtures.errors import UsageError
from fixtures.ledger import Unit, steady_collectives
from fixtures.ledger.messages import messages_of
from fixtures.meters.bandwidth import LAPS, table_of, time_messages
from fixtures.platforms import Platform
from fixtures.ranks.pool import RankPool
from fixtures.report.bandwidth import PATH, bandwidth_table, load_bandwidth, save_bandwidth
from fixtures.report.tables import render

pytestmark = pytest.mark.cpu

UNITS: list[Unit] = [[(8, 4), (8,)], [(8, 4), (8,)], [(5, 4)]]
ONE = Message(kind="all-reduce", dtype="float32", bytes=1000, use="a gradient")


def test_a_row_is_the_median_of_the_slowest_rank() -> None:
    """A message takes the median over laps of the slowest rank; the bytes are those of whole elements on every rank."""
    table = table_of([ONE], [[[1.0, 5.0, 2.0]], [[4.0, 1.0, 2.0]]], source="here")
    assert table.rows[0].bytes == 1000
    assert table.rows[0].ms == pytest.approx(4.0)
    assert table_of([ONE], [[[1.0]]] * 3, source="here").rows[0].bytes == 996


def test_the_arms_own_messages_are_in() -> None:
    """Beside the sweep there is each message that an arm sends: all gradients, a block and the root, padded to N."""
    own = [message for message in messages_of(UNITS, 4, "mixed", 8192) if message.use]
    gathers = {m.bytes for m in own if m.kind == "all-gather"}
    (reduced,) = [m.bytes for m in own if m.kind == "all-reduce"]
    gathered = steady_collectives("fsdp2-noreshard", UNITS[:2], UNITS[2], 4, "mixed")[0]
    block, root = sorted(gathers, reverse=True)
    assert 2 * block + root == gathered.bytes
    assert reduced == steady_collectives("ddp", UNITS[:2], UNITS[2], 4, "mixed")[0].bytes


def test_ranks_send_every_message(ranks: Callable[[int], RankPool]) -> None:
    """Two ranks time each kind of message, every lap of it, and the table has a positive bandwidth for each."""
    messages = messages_of(UNITS, 2, "mixed", 8192)
    laps = ranks(2).run(time_messages, messages, Platform.cpu(2))
    assert {len(of_message) for of_rank in laps for of_message in of_rank} == {LAPS}
    table = table_of(messages, laps, source="here")
    assert len(table.rows) == len(messages)
    assert {row.kind for row in table.rows} == {"all-reduce", "all-gather", "reduce-scatter"}


def test_the_table_is_kept(tmp_path: Path) -> None:
    """What was saved beside the launches is read back; a folder without one has none; a broken one is named."""
    assert load_bandwidth(tmp_path) is None
    save_bandwidth(tmp_path, PUBLISHED)
    assert load_bandwidth(tmp_path) == PUBLISHED
    (tmp_path / PATH).write_text('{"source": "x", "world_size": 0, "rows": []}')
    with pytest.raises(UsageError, match=r"bandwidth\.json.*world_size"):
        load_bandwidth(tmp_path)


def test_the_printed_table_names_its_messages() -> None:
    """One row a size with algorithm and bus bandwidth of each kind, and whose message it is; 80 columns."""
    row = Bandwidth(**ONE.model_dump(), gb_per_s=10.0)
    text = render(bandwidth_table(BandwidthTable(source="measured here", world_size=2, rows=[row])))
    assert "all-reduce x 1" in text
    assert " 10.0 " in text
    assert "a gradient" in text
    assert max(map(len, text.splitlines())) <= 80
