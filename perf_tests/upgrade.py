"""Two torch versions side by side on this machine: ``tox -e upgrade``, or with two interpreters of your own.

Sessions of the gpu tier run in turn, old new new old, each on fresh ranks, so that a slow hour of the machine is
shared by both stacks; every move is split into what both arms share and what remains in their ratio. Then the cpu tier
of perf_tests runs once under each, and a table says what moved in the budgets: messages, bytes, the host's work.
``--budgets-only`` leaves the sessions out, and takes a minute. Nothing is written to the baselines unless
``--accept-host REASON`` asks for it: then the new stack gets its own entries of the host's budgets.

Exit status 1 when the arms moved apart by more than the tolerance, or the new stack breaks a check of the cpu tier that
the old one kept, before anything was accepted; a stack whose budgets are accepted breaks none, and the table shows its
moves all the same.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from fixtures.errors import UsageError
from fixtures.gate.upgrade import budget_moves, split_moves, stacks_of
from fixtures.measurements import ALONE
from fixtures.report.results import load_nights
from fixtures.report.tables import render
from fixtures.report.upgrade_budgets import Stacks, conclusion, upgrade_budget_text
from fixtures.report.upgrades import upgrade_notes, upgrade_table
from fixtures.session.budgets import READINGS, load_readings

ORDER = ("old", "new", "new", "old")
SESSION_ENDS = (0, 1)
"""pytest's exit statuses of a session that ran: without baselines every case fails, and is measured all the same."""
BUDGET_TESTS = (
    "perf_tests/test_traffic_budget.py::test_messages_are_the_accepted",  # the file's other test needs no stored figure
    "perf_tests/test_memory_budget.py",
    "perf_tests/test_host_budget.py",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options, given = _parser().parse_known_args(arguments)
    results = options.results or Path("results") / f"upgrade-{datetime.now():%Y-%m-%d-%H%M%S}"
    pythons = {"old": options.old, "new": options.new}
    workload = ["--workload", options.workload] if options.workload else []
    accepted = ["--baselines", str(options.baselines)] if options.baselines else []
    tests = BUDGET_TESTS if options.budgets_only else ("perf_tests",)
    try:
        failed = False
        if not options.budgets_only:
            folders = _measure(pythons, results, ["--launches", options.launches, *workload, *given])
            failed = _split(folders)
        again = [f"--old {shlex.quote(options.old)}", f"--new {shlex.quote(options.new)}"]
        again += [shlex.join(part) for part in (workload, accepted, given) if part]
        command = ["python perf_tests/upgrade.py", *again, *(["--budgets-only"] if options.budgets_only else [])]
        failed = _budgets(pythons, results, tests, [*workload, *accepted], command) or failed
        if options.accept_host is not None:
            _accept(options.new, results, options.accept_host, [*workload, *accepted])
        return int(failed)
    except UsageError as error:
        print(f"upgrade: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    """Options of pytest's, for example ``--rehearse``, are passed on to the sessions of the gpu tier."""
    parser = argparse.ArgumentParser(prog="perf_tests/upgrade.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--old", required=True, metavar="PYTHON", help="interpreter that has the old torch")
    parser.add_argument("--new", required=True, metavar="PYTHON", help="interpreter that has the new torch")
    parser.add_argument("--results", type=Path, metavar="DIR", help="default: results/upgrade-<date and time>")
    parser.add_argument("--launches", default="3", metavar="COUNT", help="of each arm and session (default: 3)")
    parser.add_argument("--workload", metavar="NAME", help="what is trained (default: the suite's own)")
    parser.add_argument(
        "--baselines", type=Path, metavar="DIR", help="folder of accepted budgets (default: the suite's)"
    )
    parser.add_argument("--budgets-only", action="store_true", help="no sessions of the gpu tier: the budgets alone")
    parser.add_argument(
        "--accept-host",
        metavar="REASON",
        help="afterwards give the new stack its own entries of the host's budgets; bytes and messages are never taken "
        "along, since they are one for all stacks (default: nothing is accepted)",
    )
    return parser


def _measure(pythons: dict[str, str], results: Path, given: Sequence[str]) -> dict[str, list[Path]]:
    """Run the sessions in turn; returns each stack's folders."""
    folders: dict[str, list[Path]] = {"old": [], "new": []}
    for index, side in enumerate(ORDER):
        folder = results / f"{index}-{side}"
        print(f"session {index + 1} of {len(ORDER)}: {side}", flush=True)
        none = ["--baselines", str(results / "no-baselines")]
        # two stacks in turn are no nights of this machine's: their sessions stay out of its history
        # nor does a stack's move need the account that the model on one device is launched for
        selected = ["perf_tests", "-m", "gpu", "-k", f"not {ALONE}", "--results", str(folder), "--history", "off"]
        selected += [*none, *given]
        _pytest(pythons[side], results / f"{index}-{side}.log", selected)
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


def _budgets(
    pythons: dict[str, str], results: Path, tests: Sequence[str], given: Sequence[str], command: Sequence[str]
) -> bool:
    """The budgets under each stack, side by side; True when the new one breaks a check that the old one kept.

    ``command`` compares the two stacks once more, as a message repeats it.
    """
    ends, readings = {}, {}
    for side, python in pythons.items():
        folder, log = results / f"budgets-{side}", results / f"budgets-{side}.log"
        print(f"budgets: {side}", flush=True)
        ends[side] = _pytest(python, log, [*tests, "-m", "cpu", "--results", str(folder), *given])
        readings[side] = load_readings(folder / "judged" / READINGS)
    judged = budget_moves(readings["old"], readings["new"])
    print(upgrade_budget_text(judged, *(str(readings[side][0].provenance.stack) for side in ("old", "new"))))
    stacks = Stacks(
        ends["old"] == 0, ends["new"] == 0, str(results / "budgets-new.log"), pythons["new"], given, command
    )
    print("\n".join(conclusion(judged, stacks)))
    return ends["new"] != 0 and ends["old"] == 0


def _accept(python: str, results: Path, reason: str, given: Sequence[str]) -> None:
    """Give the new stack its own entries of the host's budgets."""
    log = results / "accept.log"
    update = ["--update-baselines", "--reason", reason, "--accept", "*/host"]
    end = _pytest(python, log, [BUDGET_TESTS[2], "-m", "cpu", *update, *given])
    lines = log.read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if line.startswith(("update of", "budgets written", "budgets unch", "ERROR:"))]
    print("\n".join(shown or lines[-15:]))
    if end:
        raise UsageError(f"the new stack's budgets were not accepted, see {log}")


def _pytest(python: str, log: Path, arguments: Sequence[str]) -> int:
    """One session; UsageError with the end of its output when it could not run."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    # what a session tells GitHub would be of a job without a baseline; this command's own table says what moved
    env = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    with log.open("w", encoding="utf-8") as stream:
        try:
            end = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False, env=env).returncode
        except OSError as error:
            raise UsageError(f"{python}: {error.strerror}") from error
    if end not in SESSION_ENDS:
        tail = "\n".join(log.read_text(encoding="utf-8").splitlines()[-15:])
        raise UsageError(f"{' '.join(command)} ended with status {end}; its last lines:\n{tail}")
    return end


if __name__ == "__main__":
    sys.exit(main())
