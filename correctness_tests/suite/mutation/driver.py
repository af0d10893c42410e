"""Run mutmut in the current folder without its mutations of strings, then write every mutant's fate as JSON.

Strings are messages, read by people and tested by meaning: three mutants a word would swamp the rest. A process of its
own: mutmut changes the path, the folder and the environment that it runs in.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import hypothesis  # noqa: F401 mutmut forks this process for every run of the tests: what all need is loaded once, here
import pydantic  # noqa: F401
import pytest  # noqa: F401
import scipy.stats  # noqa: F401
from mutmut.__main__ import cli
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files

KILLED = ("killed", "timeout", "segfault")
PYTEST_FAILED = 255
"""How a worker ends that could not run pytest (an unknown test, say), which mutmut counts as a timeout."""


def main() -> None:
    """Try the mutants that were not tried before or that lived; the argument is the file for the fates."""
    kept = [pair for pair in mutators.mutation_operators if pair[1] is not mutators.operator_string]
    vars(file_mutation)["mutation_operators"] = kept
    for data in known():
        data.exit_code_by_key = {name: code if killed(code) else None for name, code in data.exit_code_by_key.items()}
        data.save()
    cli(["run", "--max-children", "1"], standalone_mode=False)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(fates(), out, indent=1)


def known() -> Iterator[SourceFileMutationData]:
    """What mutmut knows of the module's mutants; nothing before its first run."""
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        if data.exit_code_by_key:
            yield data


def killed(code: int | None) -> bool:
    """A test failed, or the time was up, or it crashed; not where pytest itself could not run."""
    return code != PYTEST_FAILED and status_by_exit_code[code] in KILLED


def fates() -> list[dict[str, str]]:
    """Of each mutant: its name, mutmut's word for what became of it, and its diff where it lives."""
    return [
        {
            "name": name,
            "status": "pytest failed" if code == PYTEST_FAILED else status_by_exit_code[code],
            "diff": "" if killed(code) else get_diff_for_mutant(name, path=data.path),
        }
        for data in known()
        for name, code in data.exit_code_by_key.items()
    ]


if __name__ == "__main__":
    main()
