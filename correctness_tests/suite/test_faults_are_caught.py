"""Every fault in the folder is caught by the test that it names, with that test's own message and not by a crash."""

from __future__ import annotations

import pytest

from correctness_tests.suite.planting import Outcome, fault_names, find_test, load_fault, try_fault
from correctness_tests.versions import wrong_on_torch_2_9

pytestmark = pytest.mark.cpu


NOT_ON_TORCH_2_9 = ("norms_read_padding", "recomputation_gathers_again", "scalars_left_alone", "shard_of_the_next_rank")
FAULTS = [
    pytest.param(name, marks=wrong_on_torch_2_9("what the fault patches is not there"))
    if name in NOT_ON_TORCH_2_9
    else pytest.param(name, marks=[pytest.mark.zero3] if name.startswith("zero3_") else [])
    for name in fault_names()
]


@pytest.mark.parametrize("name", FAULTS)
def test_the_named_test_fails_under_the_fault(name: str) -> None:
    """With the fault planted the test that its docstring names fails, and the message says what is wrong."""
    fault = load_fault(name)
    outcome, text = try_fault(fault)
    assert outcome is Outcome.CAUGHT, (
        f"fault {name}: {outcome}. {fault.test} was to fail with {fault.caught.message!r}, got: {text}\n"
        "Either that test no longer sees this regression, or torch does this work elsewhere now."
    )


@pytest.mark.parametrize("name", fault_names())
def test_the_named_test_exists(name: str) -> None:
    """A fault's docstring names a test that exists: ``Must fail:``, then its node id."""
    find_test(load_fault(name).test)
