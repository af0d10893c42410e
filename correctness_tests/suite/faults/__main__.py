"""Try every fault against the test that it names, and those tests with no fault: the matrix, and an exit status."""

from __future__ import annotations

import argparse
import sys

from correctness_tests.suite.planting import Fault, Outcome, fault_names, load_fault, try_fault, try_without
from fixtures.extras import ZERO3

GOOD = {Outcome.CAUGHT, Outcome.PASSED}


def main() -> int:
    """Print the matrix; 1 when a fault was missed, a test crashed under one, or a test failed without one."""
    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs with no fault (default: 1)")
    parser.add_argument("--only", nargs="+", choices=fault_names(), metavar="FAULT", help="these faults (default: all)")
    options = parser.parse_args()
    found = [load_fault(name) for name in options.only or runnable()]
    width = max(len(fault.name) for fault in found)
    bad: list[str] = []

    def show(name: str, test: str, outcome: Outcome, text: str) -> None:
        print(f"{name:{width}}  {outcome:11}  {test}", flush=True)
        if outcome not in GOOD:
            bad.append(f"{name}: {outcome}, {test}: {text}")

    for fault in found:
        show(fault.name, fault.test, *try_fault(fault))
    for run in range(options.runs):
        for fault in distinct_tests(found):
            show(f"no fault, run {run + 1}", _test_id(fault), *try_without(fault))
    caught = f"{len(found)} faults, {len(distinct_tests(found))} tests, {options.runs} runs without a fault"
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
