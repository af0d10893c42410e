"""Faults: small patches of torch that simulate real regressions, each caught by the test that its docstring names.

Each module has

- a docstring that says what is wrong and, after ``Must fail:``, names the one test that must fail under it;
- ``CAUGHT``, which says how that test is called and how its message must read;
- ``apply()`` for a pool's ``rank_patch``, for example
  ``RankPool(platform, rank_patch="correctness_tests.suite.faults.unaveraged_gradients:apply")``. It stays for the life
  of the process.

``python -m correctness_tests.suite.faults`` prints the table of faults and tests, each tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Caught:
    """How the test that a fault names fails under it.

    ``message`` is a regular expression, dot matching newlines, searched in the failure's text; ``arguments`` are the
    test's own, ``ranks``, ``solo``, ``budgets`` and ``tmp_path`` apart. A test without any of the first three runs in a
    process of its own in which the fault is planted.
    """

    message: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
