"""Plant a regression at every turn of the pure modules, and count those that a module's own tests don't see.

Prints, for each module: mutants, killed, living with a reason, living without one, and the score (killed / mutants).
Exit status 1 where a score is under 90%, a living mutant has no reason in survivors.toml, or mutmut could not run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from correctness_tests.suite.mutation.modules import MODULES
from correctness_tests.suite.mutation.survivors import Explained, explanations, unexplained
from correctness_tests.suite.mutation.workplace import TIMEOUT, Mutant, WorkplaceError, forget, mutants_of
from correctness_tests.suite.parts import part

LOWEST_SCORE = 0.90
WIDTH = max(map(len, MODULES))


def main() -> int:
    """A line a module, then what is wrong."""
    if importlib.util.find_spec("mutmut") is None:
        print("mutation: mutmut is not installed: pip install -e .[mutation]", file=sys.stderr)
        return 2
    options = _options()
    print(f"{'module':{WIDTH}}  mutants  killed  explained  unexplained   score")
    explained = explanations()
    wrong = []
    for module in options.modules:
        if options.fresh:
            forget(module, options.folder)
        try:
            mutants = mutants_of(module, MODULES[module], options.folder.resolve())
        except WorkplaceError as error:
            print(f"{module:{WIDTH}}  mutmut could not run:\n{error}", flush=True)
            wrong.append(module)
            continue
        if not _show(module, mutants, explained.get(module, [])):
            wrong.append(module)
    print(f"{len(options.modules)} modules: {len(wrong)} wrong", *wrong, sep="\n")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    """The command line's, ``modules`` those to try; ends the process for one that is not known."""
    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="dotted names (default: all in modules.py)")
    parser.add_argument("--part", type=part, metavar="I/N", help="the I-th of N parts of them (default: all)")
    parser.add_argument("--folder", type=Path, default=Path(".mutation"), metavar="DIR", help="default: .mutation")
    parser.add_argument("--fresh", action="store_true", help="try all again, also what an earlier run has tried")
    options = parser.parse_args()
    if strangers := sorted(set(options.modules) - set(MODULES)):
        parser.error(f"no tests are named for {', '.join(strangers)} in modules.py; known: {', '.join(MODULES)}")
    options.modules = options.modules or list(MODULES)
    if options.part:
        options.modules = options.part.of(options.modules)
    return options


def _show(module: str, mutants: list[Mutant], explained: list[Explained]) -> bool:
    """Print a module's line, and every mutant that lives without a reason as it would stand in survivors.toml."""
    living = [(mutant.was, mutant.becomes) for mutant in mutants if not mutant.killed]
    strange, idle = unexplained(living, explained)
    killed = len(mutants) - len(living)
    counts = f"{len(mutants):7}  {killed:6}  {len(living) - len(strange):9}  {len(strange):11}"
    endless = sum(mutant.status == TIMEOUT for mutant in mutants)
    note = f"  {endless} of the killed by their time limit" if endless else ""
    print(f"{module:{WIDTH}}  {counts}  {killed / len(mutants):6.1%}{note}", flush=True)
    for was in dict.fromkeys(was for was, _ in strange):
        becomes = [after for before, after in strange if before == was]
        print(f'\n[[{json.dumps(module)}]]\nwas = {json.dumps(was)}\nbecomes = {json.dumps(becomes)}\nwhy = ""')
    for entry in idle:
        print(f"    no longer lives, take it out of survivors.toml: {entry.was}", flush=True)
    return not strange and killed / len(mutants) >= LOWEST_SCORE


if __name__ == "__main__":
    sys.exit(main())
