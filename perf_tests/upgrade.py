"""Two torch versions side by side on this machine: ``tox -e upgrade``, or with two interpreters of your own.

Sessions of the gpu tier run in turn, old new new old, each on fresh ranks, so that a slow hour of the machine is
shared by both stacks; then the exact budgets of the cpu tier run once under each. Every move is split into what both
arms share and what remains in their ratio. Exit status 1 when the arms moved apart by more than the tolerance, or the
new stack breaks a budget that the old one kept.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from fixtures.errors import UsageError
from fixtures.gate.upgrade import split_moves, stacks_of
from fixtures.report.results import load_nights
from fixtures.report.tables import render
from fixtures.report.upgrades import upgrade_notes, upgrade_table

ORDER = ("old", "new", "new", "old")
SESSION_ENDS = (0, 1)
"""pytest's exit statuses of a session that ran: without baselines every case fails, and is measured all the same."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="perf_tests/upgrade.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--old", required=True, metavar="PYTHON", help="interpreter that has the old torch")
    parser.add_argument("--new", required=True, metavar="PYTHON", help="interpreter that has the new torch")
    parser.add_argument("--results", type=Path, metavar="DIR", help="default: results/upgrade-<date and time>")
    parser.add_argument("--launches", default="3", metavar="COUNT", help="of each arm and session (default: 3)")
    options, given = parser.parse_known_args(arguments)
    results = options.results or Path("results") / f"upgrade-{datetime.now():%Y-%m-%d-%H%M%S}"
    pythons = {"old": options.old, "new": options.new}
    try:
        folders = _measure(pythons, results, ["--launches", options.launches, *given])
        failed = _split(folders)
        return int(_budgets(pythons, results) or failed)
    except UsageError as error:
        print(f"upgrade: {error}", file=sys.stderr)
        return 2


def _measure(pythons: dict[str, str], results: Path, given: Sequence[str]) -> dict[str, list[Path]]:
    """Run the sessions in turn; returns each stack's folders."""
    folders: dict[str, list[Path]] = {"old": [], "new": []}
    for index, side in enumerate(ORDER):
        folder = results / f"{index}-{side}"
        print(f"session {index + 1} of {len(ORDER)}: {side}", flush=True)
        none = ["--baselines", str(results / "no-baselines")]
        _pytest(pythons[side], results / f"{index}-{side}.log", ["-m", "gpu", "--results", str(folder), *none, *given])
        folders[side].append(folder)
    return folders


def _split(folders: dict[str, list[Path]]) -> bool:
    """Print the table; True when a case fails."""
    old, new = (load_nights(folders[side]) for side in ("old", "new"))
    splits = split_moves(old, new)
    if not splits:
        raise UsageError("the two stacks have no pair of arms in common.")
    print(render(upgrade_table(splits, str(stacks_of(old)), str(stacks_of(new)))))
    print("\n".join(upgrade_notes(splits)))
    return any(split.fails for split in splits)


def _budgets(pythons: dict[str, str], results: Path) -> bool:
    """The exact budgets under each stack; True when the new one breaks what the old one kept."""
    ends = {side: _pytest(pythons[side], results / f"budgets-{side}.log", ["-m", "cpu"]) for side in pythons}
    words = {
        side: "kept" if end == 0 else f"broken, see {results / f'budgets-{side}.log'}" for side, end in ends.items()
    }
    print(f"exact budgets of the cpu tier: old stack {words['old']}; new stack {words['new']}")
    return ends["new"] != 0 and ends["old"] == 0


def _pytest(python: str, log: Path, arguments: Sequence[str]) -> int:
    """One session; UsageError with the end of its output when it could not run."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [python, "-m", "pytest", "perf_tests", "-p", "no:cacheprovider", *arguments]
    with log.open("w", encoding="utf-8") as stream:
        try:
            end = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False).returncode
        except OSError as error:
            raise UsageError(f"{python}: {error.strerror}") from error
    if end not in SESSION_ENDS:
        tail = "\n".join(log.read_text(encoding="utf-8").splitlines()[-15:])
        raise UsageError(f"{' '.join(command)} ended with status {end}; its last lines:\n{tail}")
    return end


if __name__ == "__main__":
    sys.exit(main())
