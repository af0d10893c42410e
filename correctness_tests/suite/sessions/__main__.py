"""Run a session in each of the strange surroundings, its sockets watched; print what came of it; and an exit status."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from correctness_tests.suite.sessions.surroundings import SURROUNDINGS, can_be_apart, run


def main() -> int:
    """Print a line for each; 1 when a session failed or had a socket beyond loopback."""
    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.sessions", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose name has this text (default: all)")
    options = parser.parse_args()
    if not can_be_apart():
        print("sessions: no namespaces of our own here: nothing is cut off from the network; sockets are watched")
    bad = 0
    for surroundings in SURROUNDINGS:
        if options.only in surroundings.name:
            with tempfile.TemporaryDirectory(prefix="shardgate-sessions-") as folder:
                wrong = run(surroundings, Path(folder))
            print(
                f"{surroundings.name:50}  {'works' if not wrong else 'FAILS'}",
                *wrong,
                sep="\n" if wrong else "",
                flush=True,
            )
            bad += bool(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
