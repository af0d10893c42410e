"""A file of the first format becomes one of the second, tree by tree, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.gate.migration import migrated

pytestmark = pytest.mark.cpu


def past(ratio: float, model: int = 1, steps: int = 4, **provenance: Any) -> dict[str, Any]:
    """An accepted figure of the first format."""
    told = {"source": "measured", "date": f"2026-0{round(ratio * 10)}-01", "reason": "why", **provenance}
    return {"ratio": ratio, "workload": {"num_params": model}, "steps": {"timed": steps}, "provenance": told}


def anchored(*history: Any, **changes: Any) -> Any:
    """The anchor that an entry of that history gets; None where it gets none."""
    entry = {**past(0.9), "history": list(history), **changes}
    after = migrated({"format": 1, "entries": {"a case": entry}})
    assert after["format"] == 2
    got = dict(after["entries"]["a case"])
    anchor = got.pop("anchor", None)
    assert got == {name: value for name, value in entry.items() if name != "anchor"}
    return anchor


def test_the_oldest_alike_becomes_the_anchor() -> None:
    """Of those measured as the present one is: the same workload and the same steps."""
    assert anchored(past(0.8), past(0.7), past(0.6, model=2), past(0.5, steps=5)) == {
        "ratio": 0.7,
        "date": "2026-07-01",
        "reason": "why",
    }


def test_what_is_not_known_is_left_out() -> None:
    """An acceptance without a date makes an anchor without one."""
    assert anchored(past(0.8, date=None)) == {"ratio": 0.8, "reason": "why"}


@pytest.mark.parametrize(
    ("history", "changes"),
    [
        ([], {}),
        ([past(0.8, model=2)], {}),
        ([3], {}),
        ([{**past(0.8), "provenance": "me"}], {}),
        ([], {"history": "none"}),
    ],
)
def test_without_a_past_there_is_no_anchor(history: list[Any], changes: dict[str, Any]) -> None:
    """Nor where the past cannot be read: the tree goes on as it is, to be refused."""
    assert anchored(*history, **changes) is None


def test_an_anchor_that_is_there_stays() -> None:
    """Even in a file that says it is of the first format."""
    assert anchored(past(0.8), anchor={"ratio": 0.3}) == {"ratio": 0.3}


@pytest.mark.parametrize(
    "tree",
    [
        None,
        3,
        [],
        "x",
        {},
        {"format": 2, "entries": {}},
        {"format": True, "entries": {}},
        {"format": "1"},
        {"format": 9},
    ],
)
def test_what_is_of_no_older_format_is_left_alone(tree: Any) -> None:
    """It is read, or refused, as it is."""
    assert migrated(tree) is tree


def test_a_first_format_without_entries_is_only_renamed() -> None:
    """What is missing or of another kind is for the validation to say."""
    assert migrated({"format": 1, "note": "x"}) == {"format": 2, "note": "x"}
    assert migrated({"format": 1, "entries": 3}) == {"format": 2, "entries": 3}
    assert migrated({"format": 1, "entries": {"a": []}}) == {"format": 2, "entries": {"a": []}}
