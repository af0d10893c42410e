"""Try every fault: a row each of the cpu tier and of a rehearsal, whole, with it planted; and an exit status.

With ``--fast`` only the test that a fault names is tried, in this process: minutes where whole sessions take hours.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from correctness_tests.suite.parts import part
from correctness_tests.suite.planting import Fault, Outcome, fault_names, load_fault, try_fault, try_without
from correctness_tests.suite.whole_runs.matrix import KINDS, Kept, Matrix
from correctness_tests.suite.whole_runs.table import line_of, table_of, totals, wrong
from fixtures.extras import ZERO3

GOOD = {Outcome.CAUGHT, Outcome.PASSED}


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 when a fault was not caught as it declares, or a session without one was red."""
    command = parser()
    options = command.parse_args(arguments)
    found = [load_fault(name) for name in (runnable() if options.only is None else options.only)]
    if options.part:
        found = options.part.of(found)
    if not (found or options.clean):
        command.error("no fault and no clean session is left to run: name a fault, or pass --clean N")
    return try_alone(found, options.clean or 0) if options.fast else try_whole(found, options)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    found = argparse.ArgumentParser(prog="python -m correctness_tests.suite.faults", description=__doc__)
    found.add_argument(
        "--only", nargs="*", choices=fault_names(), metavar="FAULT", help="these, or none (default: all)"
    )
    found.add_argument("--part", type=part, metavar="I/N", help="the I-th of N parts of them (default: all)")
    found.add_argument("--clean", type=int, metavar="N", help="runs with no fault (default: none)")
    found.add_argument("--fast", action="store_true", help="only the tests that the faults name, in this process")
    found.add_argument("--only-kind", choices=KINDS, help="only this kind of session (default: both)")
    found.add_argument(
        "--full",
        action="store_true",
        help="cpu sessions in their usual order and to the end, so that every test that fails under a fault is listed "
        "(default: the named test's file first, and no further once that test has failed as it must)",
    )
    found.add_argument("--everything", action="store_true", help="the suite's own tests too (default: left out)")
    found.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep each session there; what it has is not run again"
    )
    return found


def try_whole(found: list[Fault], options: argparse.Namespace) -> int:
    """Whole sessions under each fault, then clean ones."""
    flags = tuple(
        flag for flag, given in (("--to-the-end", options.full), ("--everything", options.everything)) if given
    )
    kinds = (options.only_kind,) if options.only_kind else KINDS
    rows = []
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the session that runs ends too
    try:
        for row in Matrix(found, options.clean or 0, kinds, flags).rows(Kept.load(options.keep)):
            print(line_of(row), flush=True)
            rows.append(row)
    finally:
        signal.signal(signal.SIGTERM, before)
    bad = wrong(rows)
    print("", table_of(rows), "", f"{len(found)} faults: {totals(rows)}", *bad, sep="\n")
    return 1 if bad else 0


def try_alone(found: list[Fault], runs: int) -> int:
    """Each fault against the test that it names, and those tests with no fault."""
    width = max((len(fault.name) for fault in found), default=0)
    bad: list[str] = []

    def show(name: str, test: str, outcome: Outcome, text: str) -> None:
        print(f"{name:{width}}  {outcome:11}  {test}", flush=True)
        if outcome not in GOOD:
            bad.append(f"{name}: {outcome}, {test}: {text}")

    for fault in found:
        show(fault.name, fault.test, *try_fault(fault))
    for run in range(runs):
        for fault in distinct_tests(found):
            show(f"no fault, run {run + 1}", _test_id(fault), *try_without(fault))
    caught = f"{len(found)} faults, {len(distinct_tests(found))} tests, {runs} runs without a fault"
    print(f"{caught}: {len(bad)} wrong", *bad, sep="\n")
    return 1 if bad else 0


def runnable() -> list[str]:
    """Every fault, but those of an extra that is not installed: one line says why."""
    names = fault_names()
    if not ZERO3.installed and (left := [name for name in names if name.startswith(f"{ZERO3.name}_")]):
        print(f"{len(left)} faults left out: {ZERO3.missing}", flush=True)
        return [name for name in names if name not in left]
    return names


def distinct_tests(found: list[Fault]) -> list[Fault]:
    """One fault for each test and set of arguments."""
    return list({_test_id(fault): fault for fault in found}.values())


def _test_id(fault: Fault) -> str:
    named = {key: getattr(value, "__name__", repr(value)) for key, value in sorted(fault.caught.arguments.items())}
    arguments = ", ".join(f"{key}={value}" for key, value in named.items())
    return f"{fault.test}({arguments})" if arguments else fault.test


if __name__ == "__main__":
    sys.exit(main())
