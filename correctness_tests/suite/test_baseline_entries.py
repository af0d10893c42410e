"""What a stored entry may say: figures that agree with each other, of the same thing, for platforms of its kind."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from correctness_tests.suite.synthetic import CPU4
from fixtures.errors import UsageError
from fixtures.gate.entries import (
    Anchor,
    BaselineEntry,
    BaselineFile,
    StoredStack,
    StoredSteps,
    StoredWorkload,
    bounded,
    storable,
)
from fixtures.measurements import Settings, WorkloadRecord

pytestmark = pytest.mark.cpu

CASE = "mlp/fsdp2:ddp/peak"


def tree(**changes: Any) -> dict[str, Any]:
    """A measured entry: 2 GiB over 4."""
    arms = {"numerator": {"value": 2.0, "unit": "GiB"}, "denominator": {"value": 4.0, "unit": "GiB"}}
    provenance = {"source": "measured", "reason": "why"}
    return {"ratio": 0.5, "low": 0.4, "high": 0.6, "pairs": 4, **arms, "provenance": provenance, **changes}


def entry(**changes: Any) -> BaselineEntry:
    """The entry, validated."""
    return BaselineEntry.model_validate(tree(**changes))


def past(ratio: float, model: int = 1, **provenance: Any) -> dict[str, Any]:
    """What was accepted before, of a model of that many parameters."""
    made = tree(ratio=ratio, low=ratio, high=ratio, workload={"num_params": model})
    return {**made, "provenance": {**made["provenance"], **provenance}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ratio": 0.4},
        {"ratio": 0.6},
        {"ratio": 0.25, "low": 0.2},
        {"ratio": 1.0, "high": 1.0},
        {"provenance": {"source": "published", "reason": "why"}, "low": None, "high": None, "pairs": None},
        {"nights": [[0.4, 0.5], [0.625, 0.5]]},
        {"nights": [[0.50004] * 4]},
    ],
)
def test_an_entry_that_agrees_with_itself_is_taken(changes: dict[str, Any]) -> None:
    """Ends of the interval belong to it, medians may be a factor of two off, and a published one has no launches."""
    entry(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": None}, "an interval needs both low and high"),
        ({"high": None}, "an interval needs both low and high"),
        ({"ratio": 0.39}, "ratio 0.39 lies outside its interval [0.4, 0.6]"),
        ({"ratio": 0.61}, "ratio 0.61 lies outside its interval [0.4, 0.6]"),
        ({"ratio": 0.24, "low": 0.2}, "ratio 0.24 contradicts the arms' figures, whose ratio is 0.5"),
        ({"ratio": 1.01, "high": 1.1}, "ratio 1.01 contradicts the arms' figures, whose ratio is 0.5"),
        ({"low": None, "high": None}, "a measured entry needs low, high and pairs"),
        ({"pairs": None}, "a measured entry needs low, high and pairs"),
        ({"nights": [[0.5, 0.5], [0.5]]}, "pairs is 4, but its nights hold 3"),
        ({"nights": [[0.5003] * 4]}, "ratio 0.5 is not the mean of its nights, 0.5003"),
        ({"nights": [[0.4997] * 4]}, "ratio 0.5 is not the mean of its nights, 0.4997"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    """Each contradiction is named with its figures."""
    with pytest.raises(ValidationError) as caught:
        entry(**changes)
    assert caught.value.errors()[0]["msg"] == f"Value error, {words}"


def test_what_is_not_known_contradicts_nothing() -> None:
    """Two entries speak of the same thing as far as both say; one figure that differs is another thing."""
    known, bare = entry(workload={"num_params": 1}, steps={"timed": 4}), entry()
    assert known.speaks_of_the_same(bare)
    assert bare.speaks_of_the_same(known)
    assert not known.speaks_of_the_same(entry(workload={"num_params": 1}, steps={"timed": 5}))
    assert not known.speaks_of_the_same(entry(workload={"num_params": 2}, steps={"timed": 4}))


def test_acceptances_end_where_the_model_was_another() -> None:
    """Newest first, the present one included; what came before another model is another story, even if it was alike."""
    kept = entry(workload={"num_params": 1}, history=[past(0.51), past(0.52, model=2), past(0.53)]).acceptances()
    assert [accepted.ratio for accepted in kept] == [0.5, 0.51]


def test_the_floor_is_the_last_ratio_accepted_by_name() -> None:
    """Else the anchor's, and an entry without one is its own anchor, with its date and reason."""
    anchor = {"ratio": 0.45, "reason": "then"}
    named = [past(0.51), past(0.52, accepted=True), past(0.53, accepted=True)]
    assert entry(workload={"num_params": 1}, anchor=anchor, history=named).floor == 0.52
    assert entry(workload={"num_params": 1}, anchor=anchor, history=named[:1]).floor == 0.45
    alone = entry(provenance={"source": "measured", "reason": "why", "date": "2026-05-02"})
    assert (alone.origin, alone.floor) == (Anchor(ratio=0.5, date="2026-05-02", reason="why"), 0.5)


def file(match: str = "exact", machine: str = "nvidia-h200", entries: dict[str, Any] | None = None) -> BaselineFile:
    """A file of 4 ranks on that machine."""
    platform = CPU4.model_copy(update={"machine": machine}).model_dump()
    return BaselineFile.model_validate({"platform": platform, "match": match, "entries": entries or {}})


@pytest.mark.parametrize(
    ("match", "key", "covered"),
    [
        ("exact", "cpu-gloo-4--nvidia-h200", True),
        ("exact", "cpu-gloo-4--nvidia-h200-nv18", False),
        ("prefix", "cpu-gloo-4--nvidia-h200", True),
        ("prefix", "cpu-gloo-4--nvidia-h200-nv18", True),
        ("prefix", "cpu-gloo-4--nvidia-h2000", False),
        ("prefix", "cpu-gloo-4--nvidia-h200-nv18--set-12345678", False),
        ("prefix", "cpu-gloo-8--nvidia-h200-nv18", False),
    ],
)
def test_a_file_speaks_for_its_platform_or_its_kind(match: str, key: str, covered: bool) -> None:
    """Its own key; with ``prefix`` machines whose name goes on after it too, unless they were told settings."""
    assert file(match).covers(key) is covered


def test_a_kind_needs_a_machine() -> None:
    """Without one, ``prefix`` would speak for every machine there is."""
    assert file(machine="").match == "exact"
    with pytest.raises(ValidationError, match="match 'prefix' needs a platform with a machine"):
        file("prefix", machine="")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("mlp/fsdp2:ddp/step", "entry 'mlp/fsdp2:ddp/step': GiB is no unit of step"),
        ("mlp/fsdp2:ddp/speed", "no metric is called 'speed'"),
        ("mlp/fsdp2", "'mlp/fsdp2' is no case"),
        (f"{'m' * 130}/fsdp2:ddp/step", f"entry '{'m' * 120}': GiB is no unit of step"),
        (f"{'m' * 130}/fsdp2:ddp/speed", f"entry '{'m' * 120}': Value error, no metric"),
    ],
)
def test_a_case_and_its_units_belong_together(case: str, words: str) -> None:
    """A time is in ms, bytes are not, and the entry that mixes them is named."""
    assert CASE in file(entries={CASE: tree()}).entries
    with pytest.raises(ValidationError) as caught:
        file(entries={case: tree()})
    assert words in str(caught.value)


def test_a_time_in_bytes_is_refused_for_either_arm() -> None:
    """The second arm's unit counts as much as the first's."""
    mixed = tree(numerator={"value": 2.0, "unit": "ms"}, denominator={"value": 4 / 1024**3, "unit": "GiB"})
    with pytest.raises(ValidationError, match="GiB is no unit of step"):
        file(entries={"mlp/fsdp2:ddp/step": mixed})


def test_a_stored_stack_names_what_is_known() -> None:
    """In the usual spelling; nothing for what is absent."""
    assert str(StoredStack(torch="2.13.0", python="3.11.7", nccl="2.28")) == "torch 2.13.0, Python 3.11.7, NCCL 2.28"
    assert str(StoredStack(cuda="13.0", driver="580")) == "CUDA 13.0, driver 580"


def test_what_was_measured_is_stored_whole() -> None:
    """Every number that says what a figure speaks of; a shape that is not known is absent."""
    workload = WorkloadRecord(name="mlp", num_params=7, tokens_per_batch=8, shape_hash="abc")
    assert StoredWorkload.of(workload) == StoredWorkload(num_params=7, tokens_per_batch=8, shape_hash="abc")
    assert StoredWorkload.of(workload.model_copy(update={"shape_hash": ""})).shape_hash is None
    steps = Settings(warmup_steps=1, timed_steps=2, inspected_steps=4, loop=9)
    assert StoredSteps.of(steps) == StoredSteps(warmup=1, timed=2, inspected=4, loop=9)


def test_what_cannot_be_stored_is_told_by_its_name() -> None:
    """The first field that is wrong, and where in it; nothing else is a fault of the text."""
    with pytest.raises(UsageError) as caught, storable(CASE):
        entry(nights=[[0.5, -1.0]], pairs=0)
    said = "can't be stored: pairs: Input should be greater than or equal to 1. Nothing was written."
    assert str(caught.value) == f"{CASE}: {said}"
    with (
        pytest.raises(UsageError, match=r"can't be stored: nights\.0\.1: Input should be greater than"),
        storable(CASE),
    ):
        entry(nights=[[0.5, -1.0]])
    with pytest.raises(KeyError), storable(CASE):
        raise KeyError("x")


@pytest.mark.parametrize(
    ("history", "kept"), [([], []), ([2, 1], [2, 1]), ([3, 2, 1], [3, 2, 1]), ([5, 4, 3, 2, 1], [5, 4, 1])]
)
def test_a_long_history_keeps_its_newest_and_its_first(history: list[int], kept: list[int]) -> None:
    """Of more than may be stored the newest stay, and what was accepted first of all."""
    assert bounded(history, 3) == kept
