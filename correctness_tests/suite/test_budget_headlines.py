"""Property: a verdict's headline is a figure that the verdict is about; operators are exact by name."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic_budgets import accepted, host, judged
from fixtures.gate.budgets import Reading
from fixtures.report.budgets import budget_lines, budget_message

pytestmark = pytest.mark.cpu


def test_what_is_within_its_bound_is_no_headline() -> None:
    """Calls +0.9% beside five operators fewer: the operators are named."""
    text = " ".join(" ".join(budget_lines([judged("host", host(forward=1009, adds=5), accepted())])).split())
    assert "IMPROVED mlp/fsdp2/host: less than was accepted: forward operators 15 -> 10" in text


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
