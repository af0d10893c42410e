"""Every correctness check fails under the fault that it guards against, with its own message and not by a crash."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from correctness_tests.gradients import uneven_gpt2, whole_number_mlp
from correctness_tests.suite import faults
from correctness_tests.test_gradients_match_ddp import check_exact
from correctness_tests.test_reduction_is_float32 import check_reduction
from correctness_tests.test_row_norms import check_row_norms
from correctness_tests.test_whole_rows import check_whole_rows
from fixtures.platforms import Platform
from fixtures.ranks.pool import RankPool

pytestmark = pytest.mark.cpu

Check = Callable[[RankPool], None]

SHAPES = [(5, 3), (4, 2, 2)]

CAUGHT: dict[str, list[tuple[Check, str]]] = {
    "unaveraged_gradients": [
        (partial(check_exact, make=whole_number_mlp, strategy="fsdp2", steps=1), r"whole_number_mlp.*are off\. Worst"),
        (partial(check_exact, make=uneven_gpt2, strategy="fsdp2", steps=1), r"are off\. Worst: rank \d, step 0"),
    ],
    "stale_parameters": [
        (partial(check_exact, make=whole_number_mlp, strategy="fsdp2", steps=2), r"are off\. Worst: rank \d, step 1"),
    ],
    "unreduced_precision": [(check_reduction, r"fsdp2 in mixed precision.*are off\. Worst")],
    "shard_rows_reversed": [(partial(check_whole_rows, shapes=SHAPES), r"rank 0 of 2, parameter of shape \(5, 3\)")],
    "row_norms_gather": [(partial(check_row_norms, shapes=SHAPES), r"row norms issued \['all-gather'")],
}
"""Each fault with the checks that must fail under it, and how their message must read."""

REHEARSED = {"kept_unsharded_parameters", "ddp_without_bucket_views"}
"""Faults of memory: a whole rehearsal must fail under them."""


@pytest.mark.parametrize("fault", CAUGHT)
def test_the_checks_fail_under_the_fault(fault: str) -> None:
    """With the fault planted on two gloo ranks each of its checks fails, and its message names what is wrong."""
    with RankPool(Platform.cpu(2), rank_patch=f"{faults.__name__}.{fault}:apply") as pool:
        for check, message in CAUGHT[fault]:
            with pytest.raises(AssertionError, match=message):
                check(pool)


def test_every_fault_is_under_test() -> None:
    """No fault lies in the folder without a check that must fail under it."""
    assert {module.name for module in pkgutil.iter_modules(faults.__path__)} == {*CAUGHT, *REHEARSED}


@pytest.mark.parametrize("fault", [*CAUGHT, *sorted(REHEARSED)])
def test_every_fault_names_what_must_fail(fault: str) -> None:
    """A fault's docstring names the test that must fail under it, a file or a folder that exists."""
    text = importlib.import_module(f"{faults.__name__}.{fault}").__doc__ or ""
    named = re.search(r"Must fail: .*?\b((?:correctness_tests|perf_tests)[\w/.]*)", text, re.DOTALL)
    assert named, f"{fault}: its docstring has no 'Must fail:' with a path"
    assert (Path(__file__).parents[2] / named[1]).exists()
