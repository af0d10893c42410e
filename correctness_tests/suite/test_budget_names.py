"""How budgets, stacks and messages are written: one way each, read back exactly, and all else is named."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from correctness_tests.suite.synthetic import CPU4
from correctness_tests.suite.synthetic_budgets import TORCH13, TORCH14, accepted, case
from fixtures.gate.budgets import (
    BudgetCase,
    BudgetEntry,
    BudgetFile,
    Floor,
    Reading,
    StackLabel,
    event,
    figures_of,
    tolerance_of,
)
from fixtures.measurements import Stack

pytestmark = pytest.mark.cpu

LABEL = StackLabel((2, 13), (3, 11))


def test_a_stack_is_written_in_two_ways() -> None:
    """For a reader, and as a key ends."""
    assert (str(LABEL), LABEL.slug) == ("torch 2.13, Python 3.11", "torch-2.13-python-3.11")
    assert StackLabel.parse(LABEL.slug) == StackLabel.of(Stack(torch="2.13.0+cpu", python="3.11.7")) == LABEL


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch-2.13", "'torch-2.13' is no stack: write it like 'torch-2.13-python-3.11'"),
        ("x" * 70, f"'{'x' * 60}' is no stack: write it like 'torch-2.13-python-3.11'"),
        (
            "torch-2.13-python-3.11-more",
            "'torch-2.13-python-3.11-more' is no stack: write it like 'torch-2.13-python-3.11'",
        ),
        ("torch-02.13-python-3.11", "'torch-02.13-python-3.11' is written 'torch-2.13-python-3.11'"),
    ],
)
def test_what_is_no_stack_is_named(text: str, words: str) -> None:
    """Cut where it would fill the screen."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole message follows
        StackLabel.parse(text)
    assert str(caught.value) == words


def test_what_is_no_version_is_named() -> None:
    """Major and minor must be numbers."""
    with pytest.raises(ValueError, match="'main' is no version"):
        StackLabel.of(Stack(torch="main", python="3.11.7"))
    with pytest.raises(ValueError, match=f"'{'v' * 40}' is no version"):
        StackLabel.of(Stack(torch="2.13.0", python="v" * 50))


@pytest.mark.parametrize(
    ("made", "stack", "key"),
    [
        (case("traffic"), None, "mlp/fsdp2/traffic"),
        (case("host"), LABEL, "mlp/fsdp2/host/torch-2.13-python-3.11"),
        (BudgetCase(workload="a/b", arm="ddp", budget="memory"), None, "a/b/ddp/memory"),
    ],
)
def test_a_key_reads_back(made: BudgetCase, stack: StackLabel | None, key: str) -> None:
    """A budget that differs from stack to stack has the stack in its key; the others are the same on every one."""
    assert (BudgetCase.parse(key), made.key(LABEL)) == ((made, stack), key)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("mlp/host", "'mlp/host' is no budget: write it like 'mlp/fsdp2/traffic'"),
        ("x" * 90, f"'{'x' * 80}' is no budget: write it like 'mlp/fsdp2/traffic'"),
        ("mlp/fsdp2/host", "'mlp/fsdp2/host': a host budget needs a stack"),
        (
            "mlp/fsdp2/memory/torch-2.13-python-3.11",
            "'mlp/fsdp2/memory/torch-2.13-python-3.11': a memory budget is the same on every stack",
        ),
        (f"{'m' * 90}/fsdp2/host", f"'{'m' * 80}': a host budget needs a stack"),
    ],
)
def test_what_is_no_key_is_named(key: str, words: str) -> None:
    """With what it lacks or has too much."""
    with pytest.raises(ValueError, match="budget") as caught:
        BudgetCase.parse(key)
    assert str(caught.value) == words


def test_an_event_is_five_words() -> None:
    """Phase, kind, dtype, bytes and unit; a kind of two words is joined, and what is not known is left out."""
    assert event("forward", "all gather", "bfloat16", 64, "blocks.0") == "forward all-gather bfloat16 64 blocks.0"
    assert event("optimizer", "broadcast", "uint8", 4) == "optimizer broadcast uint8 4"


def test_figures_are_sums_of_events() -> None:
    """Count and bytes by kind and dtype, whatever the phase and unit."""
    events = [
        "forward gather bf16 64 a",
        "backward gather bf16 32 b c",
        "forward gather fp32 8",
        "backward reduce fp32 1",
    ]
    assert figures_of(events) == {
        "gather bf16 count": 2,
        "gather bf16 bytes": 96,
        "gather fp32 count": 1,
        "gather fp32 bytes": 8,
        "reduce fp32 count": 1,
        "reduce fp32 bytes": 1,
    }


@pytest.mark.parametrize(
    "text",
    [
        "forward gather bf16",
        "forward gather bf16 x",
        "a b c -1",
        f"a b c {'1' * 19}",
        "x" * 99,
        "forward  gather bf16 1",
    ],
)
def test_what_is_no_event_is_named(text: str) -> None:
    """With an example of one."""
    with pytest.raises(ValueError, match="is no event") as caught:
        figures_of([text])
    assert str(caught.value) == f"{text[:80]!r} is no event: write it like 'forward all-gather bfloat16 66560 blocks.0'"


def test_only_calls_may_move() -> None:
    """Python calls by 2%, everything else not at all."""
    names = ("forward calls", "calls of a", "forward operators", "resident bytes")
    assert [tolerance_of(name) for name in names] == [0.02, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        ({"figures": {"a": 3}, "parts": {"a": {"x": 1, "y": 1}}}, "'a' is not the sum of its parts, 2"),
        ({"figures": {"a": 3}, "parts": {"b": {"x": 1}}}, "'b' is not the sum of its parts, 1"),
        ({"figures": {"a": 3}, "events": ["forward gather bf16 64"]}, "the figures are not the sums of the events"),
    ],
)
def test_a_reading_adds_up(reading: dict[str, Any], words: str) -> None:
    """A number that was typed in by hand does not."""
    assert Reading.model_validate({"figures": {"a": 3}, "parts": {"a": {"x": 1, "y": 2}}}).figures == {"a": 3}
    with pytest.raises(ValidationError) as caught:
        Reading.model_validate(reading)
    assert caught.value.errors()[0]["msg"] == f"Value error, {words}"


def entry(**changes: Any) -> dict[str, Any]:
    """An entry of three bytes."""
    return {"figures": {"a": 3}, "provenance": {"source": "measured", "reason": "why", "date": "2026-05-02"}, **changes}


def test_an_entry_is_its_own_floor() -> None:
    """With its date, where nothing lower came before it."""
    alone, later = (BudgetEntry.model_validate(each) for each in (entry(), entry(floor={"figures": {"a": 1}})))
    assert alone.origin == Floor(figures={"a": 3}, date="2026-05-02")
    assert later.origin == Floor(figures={"a": 1})


def file(entries: dict[str, Any]) -> BudgetFile:
    """A file with these entries."""
    return BudgetFile.model_validate({"platform": CPU4.model_dump(), "entries": entries})


SENT = {"figures": {"gather bf16 count": 1, "gather bf16 bytes": 8}, "events": ["forward gather bf16 8"]}
HOST = "mlp/ddp/host/torch-2.13-python-3.11"


def of_stack(**stack: str) -> dict[str, Any]:
    """An entry that says where it was read."""
    return entry(provenance={"source": "measured", "reason": "why", "stack": stack})


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        ("mlp/ddp/memory", entry()),
        ("mlp/ddp/memory", entry(figures={"no collectives count": 0})),
        ("mlp/ddp/traffic", entry(**SENT)),
        ("mlp/ddp/traffic", entry(figures={"no collectives count": 0})),
        (HOST, entry()),
        (HOST, of_stack(torch="2.13.1", python="3.11.2")),
        (HOST, of_stack(torch="2.12.1")),  # half a stack says nothing
    ],
)
def test_an_entry_under_its_key_is_taken(key: str, stored: dict[str, Any]) -> None:
    """Messages belong to traffic, also where there is none; a stack that is not known contradicts nothing."""
    assert list(file({key: stored}).entries) == [key]


@pytest.mark.parametrize(
    ("key", "stored", "words"),
    [
        ("mlp/ddp/traffic", entry(), "entry 'mlp/ddp/traffic': events belong to a traffic budget, and to no other"),
        ("mlp/ddp/traffic", entry(figures={"no collectives count": 1}), "events belong to a traffic budget"),
        ("mlp/ddp/memory", entry(**SENT), "entry 'mlp/ddp/memory': events belong to a traffic budget, and to no other"),
        (
            HOST,
            of_stack(torch="2.12.1", python="3.11.2"),
            f"entry '{HOST}': its provenance says torch 2.12.1, Python 3.11.2",
        ),
        (HOST, of_stack(torch="2.13.1", python="3.12.2"), "its provenance says torch 2.13.1, Python 3.12.2"),
        ("mlp/DDP/memory", entry(), "entry 'mlp/DDP/memory': String should match pattern"),
        (f"{'m' * 130}/ddp/what", entry(), f"entry '{'m' * 120}': Input should be 'traffic', 'memory' or 'host'"),
        ("mlp/memory", entry(), "entry 'mlp/memory': 'mlp/memory' is no budget"),
        (f"{'m' * 130}/memory", entry(), f"entry '{'m' * 120}': '{'m' * 80}' is no budget"),
        (f"{'m' * 130}/ddp/traffic", entry(), f"entry '{'m' * 120}': events belong to a traffic budget"),
    ],
)
def test_an_entry_under_another_key_is_refused(key: str, stored: dict[str, Any], words: str) -> None:
    """The key is named, cut where it would fill the screen."""
    with pytest.raises(ValidationError) as caught:
        file({key: stored})
    assert words in str(caught.value)


def test_entries_of_a_case_are_found_by_stack() -> None:
    """Under None where one judges all; of another arm there are none."""
    stored = accepted(TORCH13, TORCH14)
    assert list(stored.of(case("traffic"))) == [None]
    assert list(stored.of(case("host"))) == [LABEL, StackLabel((2, 14), (3, 11))]
    assert stored.of(case("host", "ddp")) == {}
