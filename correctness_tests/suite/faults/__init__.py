"""Faults: small patches of torch that simulate real regressions, each caught by the test that its docstring names.

Each module has

- a docstring that says what is wrong and, after ``Must fail:``, names the one test that must fail under it;
- ``CAUGHT``, which says how that test is called, how its message must read, and what a rehearsal sees of the fault;
- ``apply()`` for a pool's ``rank_patch``, for example
  ``RankPool(platform, rank_patch="correctness_tests.suite.faults.unaveraged_gradients:apply")``. It stays for the life
  of the process.

``python -m correctness_tests.suite.faults`` tries each in whole sessions and prints the table; with ``--fast`` it tries
the named tests alone.
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

    ``rehearsal`` has the cases of a rehearsal that must fail under it, ``test_file.py::test[case]``, each with a
    regular expression that its message must match, the arm's name included; what else fails there is listed and no
    fault. Where it is empty ``unseen`` says why no rehearsal can see the fault, and one that is red all the same is a
    finding: it declares too little.
    """

    message: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    rehearsal: Mapping[str, str] = field(default_factory=dict)
    unseen: str = ""


NUMBERS = "numbers alone are wrong: bytes and messages, which a rehearsal judges, are as they were"
NOT_TRAINED = "a rehearsal trains GPT-2 plainly: what the fault changes is not in it"
HOST = "the host's work is no figure of ranks: the cpu tier's budgets and a rehearsal with --platform solo have it"
CUT_EVENLY = "a rehearsal's GPT-2 is cut evenly by 4 ranks: no shard is padded"
WITHIN_THE_GATE = "the peak moves by less than the 10% that a ratio is gated at: the cpu tier counts it to the byte"
"""Why a rehearsal sees nothing of a fault."""

FEWER_GATHERS = {
    "test_collectives.py::test_no_reshard_gathers_less[fsdp2-noreshard:fsdp2]": r"reshard_after_forward has no effect"
}


def sends(arm: str, measured: str) -> dict[str, str]:
    """The case of a rehearsal in which an arm's messages are not the ledger's, and what was measured of them."""
    case = f"test_collectives.py::test_collectives_are_the_ledgers[{arm}]"
    return {case: rf"^{arm} on \S+: the collectives of one steady step are not.*measured [^\n]*{measured}"}


def grows(arm: str) -> dict[str, str]:
    """The case in which an arm's resident bytes grow from step to step."""
    case = f"test_no_growth.py::test_resident_bytes_do_not_grow_from_step_to_step[{arm}]"
    return {case: rf"^{arm} on \S+: resident bytes after each inspected step differ"}


def moves(pair: str, metric: str, verdict: str, arms: str) -> dict[str, str]:
    """The case of a ratio, its verdict, and how far each arm moved, which says whose fault it is."""
    return {f"test_memory_ratios.py::test_memory_ratio[{metric}-{pair}]": rf"^{verdict} .*moved +{arms}"}
