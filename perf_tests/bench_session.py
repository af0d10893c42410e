"""What a rehearsal costs beside its launches: the session's own line, and the wall clock around the whole command.

    python -m perf_tests.bench_session               # --bound 0.2: status 1 beyond a fifth; other options are pytest's

Overhead is the wall time of the command, from the interpreter's start to its exit, less that of the launches: every
start of ranks that measure, the bandwidth table's too. The server that ranks are forked from is paid once and counts as
overhead.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from fixtures.folder_options import SUITE
from fixtures.session.spent import LAUNCHES

COMMAND = ("-m", "pytest", "perf_tests", "--report", "-m", "gpu", "--rehearse", "--history", "off")


def spent_by(output: str) -> dict[str, float]:
    """Seconds by what they were spent on, from a session's line; ValueError where there is none."""
    text = " ".join(output.split())
    found = re.search(rf"session: [\d.]+ s, {LAUNCHES} ([\d.]+) s \([^)]*\); (.*?) the rest ([\d.]+) s", text)
    if found is None:
        raise ValueError("the session left no line that says what its time was spent on")
    beside = {name: float(s) for name, s in re.findall(r"([^,]+?) ([\d.]+) s(?:, |,$)", f"{found[2]} ")}
    return {LAUNCHES: float(found[1]), **beside, "the rest": float(found[3])}


def table(spent: dict[str, float], wall: float) -> tuple[str, float]:
    """The terms as lines, and the share of the wall that is no launch."""
    terms = {**spent, "after the summary: the interpreter's end": max(wall - sum(spent.values()), 0.0)}
    lines = [f"{name:<50}{seconds:8.1f} s{seconds / wall:8.1%}" for name, seconds in terms.items()]
    beside = wall - spent[LAUNCHES]
    lines += [f"{'together':<50}{wall:8.1f} s", f"{'overhead':<50}{beside:8.1f} s{beside / wall:8.1%}"]
    return "\n".join(lines), beside / wall


def main(arguments: Sequence[str]) -> int:
    """Rehearse once and print the terms; status 1 beyond the bound, 2 where the session left none."""
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.bench_session", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--bound", type=float, default=1.0, metavar="SHARE", help="fail beyond it (default: none)")
    asked, given = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, *COMMAND, "--results", f"{results}/night", *given]
        began = time.monotonic()
        ended = subprocess.run(command, cwd=SUITE, capture_output=True, text=True, check=False)
        wall = time.monotonic() - began
    try:
        text, share = table(spent_by(ended.stdout), wall)
    except ValueError as error:
        print(f"{error}; it ended with status {ended.returncode}:\n{ended.stdout[-2000:]}", file=sys.stderr)
        return 2
    print(text)
    return int(share > asked.bound)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
