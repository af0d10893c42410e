"""How far a network moved, message by message, when a table is accepted, and how it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from correctness_tests.suite.judging import GPUS, NIGHT
from correctness_tests.suite.synthetic import ARMS, CPU4, STACK, Job, accepted
from correctness_tests.suite.test_accepted_network import stored, table
from fixtures.bandwidth import KINDS, Bandwidth, BandwidthTable
from fixtures.gate.baselines import BaselineFile
from fixtures.gate.comparisons import compare
from fixtures.gate.entries import StoredStack
from fixtures.gate.networks import (
    LARGE,
    MAX_HISTORY,
    AcceptedTable,
    NetworkFile,
    accepted_now,
    moves,
    network_line,
    render_network,
    step_times,
)
from fixtures.gate.proposals import Asked, Proposal, propose
from fixtures.measurements import PlatformRecord, Provenance

pytestmark = pytest.mark.cpu

OLD = accepted(NIGHT)
BETWEEN, RESHARD = (f"gpt2-rehearsal/{pair}/step" for pair in ("fsdp2:ddp", "fsdp2-noreshard:fsdp2"))
TOLD = Provenance(stack=STACK, date="2026-06-01", commit="abc", dirty=False)


def measured(*rows: tuple[str, str, int, float], world_size: int = 8) -> BandwidthTable:
    """A table of these: kind, dtype, bytes, GB/s."""
    made = [Bandwidth(kind=kind, dtype=dtype, bytes=size, gb_per_s=speed) for kind, dtype, size, speed in rows]
    return BandwidthTable(source="measured", world_size=world_size, rows=made)


ONE = ("all-reduce", "float32", LARGE, 10.0)


@pytest.mark.parametrize(
    ("here", "then", "found"),
    [
        ([("all-reduce", "float32", LARGE, 20.0)], [ONE], [("all-reduce", 2.0, 1)]),
        (
            [("all-reduce", "float32", LARGE, 20.0), ("all-reduce", "bfloat16", LARGE, 2.5)],
            [ONE, ("all-reduce", "bfloat16", LARGE, 10.0)],
            [("all-reduce", 0.5**0.5, 2)],
        ),
        (
            [("all-reduce", "float32", LARGE, 40.0), ("all-reduce", "float32", LARGE - 1, 1.0), (*ONE[:2], 1, 1.0)],
            [ONE, ("all-reduce", "float32", LARGE - 1, 10.0), ("all-reduce", "float32", 1, 10.0)],
            [("all-reduce", 4.0, 1)],
        ),
        (
            [
                ("all-gather", "float32", 64, 5.0),
                ("all-gather", "float32", 8, 1.0),
                ("all-gather", "bfloat16", 64, 5.0),
            ],
            [
                ("all-gather", "float32", 8, 10.0),
                ("all-gather", "float32", 64, 10.0),
                ("all-gather", "bfloat16", 64, 5.0),
            ],
            [("all-gather", 0.5**0.5, 2)],
        ),
        ([ONE], [("all-gather", "float32", LARGE, 10.0)], []),
        ([ONE], [("all-reduce", "float32", LARGE + 1, 10.0)], []),
        ([ONE], [("all-reduce", "bfloat16", LARGE, 10.0)], []),
    ],
    ids=["one", "two dtypes", "large only", "largest of the small", "other kind", "other size", "other dtype"],
)
def test_moves_are_means_over_messages(here: Any, then: Any, found: list[tuple[str, float, int]]) -> None:
    """Of the same kind, dtype and size, from 1 MiB on; where none is that large, those of the largest size."""
    told = moves(measured(*here), measured(*then))
    assert [(move.kind, move.messages) for move in told] == [(kind, messages) for kind, _, messages in found]
    assert [move.ratio for move in told] == pytest.approx([ratio for _, ratio, _ in found])


def test_a_move_is_a_fraction() -> None:
    """Of a network that takes twice the time: -50%. Another N is another network."""
    assert moves(measured((*ONE[:3], 5.0)), measured(ONE))[0].move == pytest.approx(-0.5)
    assert moves(measured(ONE, world_size=4), measured(ONE)) == []


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({}, "the network is as it was (+0%)"),
        ({"all_reduce": 1.01, "all_gather": 0.96}, "the network is as it was (-4%)"),
        (
            {"all_reduce": 0.79, "all_gather": 2.0},
            "the network: all-reduce -21%, all-gather +100% against the table accepted 2026-05-02: "
            "slower and faster tonight",
        ),
        (
            {"all_gather": 1.06, "all_reduce": 0.97},
            "the network: all-gather +6% against the table accepted 2026-05-02: faster tonight",
        ),
        (
            {"all_gather": 1.03, "all_reduce": 0.94},
            "the network: all-reduce -6% against the table accepted 2026-05-02: slower tonight",
        ),
    ],
)
def test_one_sentence_tells_all_moves(factors: dict[str, float], said: str) -> None:
    """Those beyond 5%, by kind, up and down; of a network that held, the largest."""
    file = stored().model_copy(update={"date": "2026-05-02T03:04:05+00:00"})
    assert network_line(table(1.0, **factors), file, GPUS) == said


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        (GPUS, f"the network: no accepted table on {GPUS.key} yet; an update of all step times accepts this one"),
        (CPU4, "the network: no accepted table on cpu-gloo-4 (shown only: ranks share this machine's cores)"),
    ],
)
def test_a_first_table_is_said(platform: PlatformRecord, said: str) -> None:
    """And how it is accepted, where it can be."""
    assert network_line(table(), None, platform) == said


@pytest.mark.parametrize("platform", [GPUS, CPU4])
def test_on_a_cpu_every_sentence_says_so(platform: PlatformRecord) -> None:
    """That it is shown only."""
    here, file = table(), stored(platform).model_copy(update={"date": "2026-05-02T03:04:05+00:00"})
    other, slower = here.model_copy(update={"world_size": 2}), table(all_reduce=0.5)
    tonight = [each.model_copy(update={"world_size": platform.world_size}) for each in (here, slower)]
    lines = [network_line(each, file, platform) for each in (other, *tonight)]
    shown = " (shown only: ranks share this machine's cores)"
    assert lines[0].removesuffix(shown) == "the network: no message in common with the table accepted 2026-05-02"
    assert [line.endswith(shown) for line in lines] == [platform is CPU4] * 3


def update(cases: str = "", *, step: float = 1.0, old: BaselineFile | None = OLD, **asked: Any) -> Proposal:
    """An update of the night's comparisons whose case ends so, fsdp2 slower by this factor."""
    arms = {**ARMS, "fsdp2": ARMS["fsdp2"].scaled(step=step)}
    night = Job(arms, platform=GPUS, own_sd=0.005, shared_sd=0.005, seed=3).measurements()
    found = [c for c in compare(night, old, True) if c.case.id.endswith(cases)]
    return propose(found, old, Asked("new switches", **asked))


def test_step_times_are_taken_or_left() -> None:
    """Taken: what an update grants, changed or not. Left: what the baseline keeps of the same workload's."""
    assert step_times(update()) == ({BETWEEN, RESHARD}, set())
    assert step_times(update(old=None)) == ({BETWEEN, RESHARD}, set())
    assert step_times(update("fsdp2:ddp/step")) == ({BETWEEN}, {RESHARD})
    assert step_times(update("resident")) == (set(), set())
    other = {f"mine/{case_id.partition('/')[2]}": entry for case_id, entry in OLD.entries.items()}
    fp32 = {f"{case_id}/fp32": entry for case_id, entry in OLD.entries.items()}
    more = OLD.model_copy(update={"entries": {**OLD.entries, **other, **fp32}})
    assert step_times(update(old=more)) == ({BETWEEN, RESHARD}, set())


def test_step_times_stay_behind_also_where_nothing_changes() -> None:
    """The same night again, one step time alone; and where two launches are too few for a first baseline, nothing."""
    again = [c for c in compare(NIGHT.measurements(), OLD, True) if c.case.id == BETWEEN]
    proposal = propose(again, OLD, Asked("again"))
    assert (proposal.file, step_times(proposal)) == (None, ({BETWEEN}, {RESHARD}))
    few = compare(replace(NIGHT, launches=2).measurements(), None, True)
    assert step_times(propose(few, None, Asked("first"))) == (set(), set())


def taken(proposal: Proposal, here: BandwidthTable | None = None, before: NetworkFile | None = None) -> Any:
    """What an update accepts of a table."""
    return accepted_now(here or table(), GPUS, TOLD, " new switches ", proposal, before)


def test_a_table_is_accepted_with_its_evidence() -> None:
    """Platform, reason, day, stack, commit; a message once, six digits; nothing was before it."""
    rows = [*table().rows[:2], Bandwidth(kind="all-reduce", dtype="float32", bytes=1024, gb_per_s=1.23456789)]
    file = taken(update(), table().model_copy(update={"rows": rows}))
    assert file == NetworkFile(
        platform=GPUS,
        reason="new switches",
        date="2026-06-01",
        stack=StoredStack.of(STACK),
        commit="abc",
        dirty=False,
        rows=[rows[0].model_copy(update={"gb_per_s": 1.23457}), rows[1]],
    )


def test_a_table_is_accepted_with_all_step_times() -> None:
    """Not with some of them, with none, or where anything was refused."""
    assert taken(update("step")) is not None
    for proposal in (update("fsdp2:ddp/step"), update("resident"), update(step=1.2)):
        assert taken(proposal) is None


def test_the_table_before_is_kept() -> None:
    """With its own evidence, before those that it replaced; of a full history the first stays, too."""
    past = [AcceptedTable(reason=f"r{i}", date="2026-04-01", rows=table().rows[:1]) for i in range(MAX_HISTORY)]
    for kept in (0, 1, MAX_HISTORY - 1, MAX_HISTORY):
        before = stored().model_copy(update={"commit": "def", "history": past[:kept]})
        history = taken(update(), before=before).history
        numbers = [*range(kept)] if kept < MAX_HISTORY else [*range(MAX_HISTORY - 2), MAX_HISTORY - 1]
        assert [table.reason for table in history] == ["the first night", *(f"r{i}" for i in numbers)]
        assert (history[0].commit, history[0].date, history[0].rows) == ("def", "2026-05-02", stored().rows)


FILE = """\
{
  "format": 1,
  "platform": {"device_type": "cuda", "backend": "nccl", "world_size": 8, "machine": "test-gpu"},
  "reason": "the first night",
  "date": "2026-05-02",
  "stack": {},
  "rows": [
    {"kind": "all-reduce", "dtype": "float32", "bytes": 1024, "use": "", "gb_per_s": 10.0},
    {"kind": "all-reduce", "dtype": "float32", "bytes": 8192, "use": "", "gb_per_s": 10.0}
  ],
  "history": [
    {"reason": "before", "date": "2026-04-01", "stack": {}, "rows": [{"kind": "all-reduce", "dtype": "float32", \
"bytes": 1024, "use": "", "gb_per_s": 10.0}]}
  ]
}
"""


def test_a_file_has_a_line_a_message() -> None:
    """What it is of, on what evidence, then a line a message and a line a table that was accepted before."""
    past = AcceptedTable(reason="before", date="2026-04-01", rows=table().rows[:1])
    assert render_network(stored().model_copy(update={"rows": table().rows[:2], "history": [past]})) == FILE


def test_an_accepted_table_says_when() -> None:
    """As a source is named in pictures and accounts."""
    found = stored().model_copy(update={"date": "2026-05-02T03:04:05+00:00"}).table
    assert (found.source, found.world_size, len(found.rows)) == ("accepted 2026-05-02", 8, 5 * len(KINDS))
