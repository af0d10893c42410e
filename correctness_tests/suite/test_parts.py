"""Parts of a matrix, which several machines try side by side, are together the whole."""

from __future__ import annotations

import argparse

import pytest

from correctness_tests.suite.mutation.modules import MODULES
from correctness_tests.suite.parts import part
from correctness_tests.suite.planting import fault_names

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "a/b", "1/", "-1/4"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    """Nothing passes by not running."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"is no part: 1/4 to 4/4 are the quarters"):
        part(text)


@pytest.mark.parametrize("whole", [fault_names(), list(MODULES)], ids=["faults", "modules"])
def test_the_parts_are_the_whole(whole: list[str]) -> None:
    """Every fault, and every module under mutation, is in one part of four."""
    parts = [name for number in range(1, 5) for name in part(f"{number}/4").of(whole)]
    assert sorted(parts) == sorted(whole)
