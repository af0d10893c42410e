"""Property: a verdict's headline is a figure that the verdict is about; operators are exact by name."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic_budgets import MESSAGES, accepted, host, judged, traffic
from fixtures.gate.budgets import Reading
from fixtures.report.budgets import budget_lines, budget_message

pytestmark = pytest.mark.cpu


def test_what_is_within_its_bound_is_no_headline() -> None:
    """Calls +0.9% beside five operators fewer: the operators are named."""
    text = " ".join(" ".join(budget_lines([judged("host", host(forward=1009, adds=5), accepted())])).split())
    assert "IMPROVED mlp/fsdp2/host: less than was accepted: forward operators 15 -> 10" in text


def test_the_headline_is_the_largest_move_of_what_the_verdict_is_about() -> None:
    """Of figures that are worse, the one that is worse by most of itself; one from nothing before all others."""
    found = judged("host", host(forward=1100, backward=2400, adds=2), accepted())
    assert found.headline is not None
    assert found.headline.name == "backward calls"
    assert found.headline.change == pytest.approx(0.2)
    parts = {**host(forward=9000).parts, "input calls": {"torch/c.py": 1}}
    more = Reading(figures={name: sum(part.values()) for name, part in parts.items()}, parts=parts)
    assert (headline := judged("host", more, accepted()).headline) is not None
    assert (headline.name, headline.change) == ("input calls", None)


def test_only_a_move_has_a_headline() -> None:
    """A pass that moved within its bounds is about none, and neither is what nothing is accepted for."""
    assert judged("host", host(forward=1009), accepted()).headline is None
    assert judged("host", host(), None).headline is None


def test_messages_in_another_order_have_no_headline() -> None:
    """REGRESSED with no figure that moved: the messages are named instead."""
    found = judged("traffic", traffic(*reversed(MESSAGES)), accepted())
    assert (found.verdict.value, found.headline) == ("REGRESSED", None)


def test_other_operators_for_the_same_count_fail() -> None:
    """Ten adds become one and nine copies: REGRESSED, with the names."""
    parts = {**host().parts, "forward operators": {"aten.add.Tensor": 1, "aten.mm.default": 5, "aten.copy_.default": 9}}
    found = judged("host", Reading(figures=host().figures, parts=parts), accepted())
    text = " ".join(budget_message(found).split())
    assert "REGRESSED: other operators for the same count" in text
    assert "aten.add.Tensor 10 -> 1, aten.copy_.default 0 -> 9" in text


def test_a_saving_has_a_meaning_of_its_own() -> None:
    """Fewer calls are not called other work."""
    text = " ".join(budget_message(judged("host", host(forward=866), accepted())).split())
    assert "The host does less for the same step" in text
