"""Fuzz one loader for some minutes of CPU time with atheris, which learns from the branches that an input takes.

Stops at the first input that breaks it, keeps that in ``findings/`` and prints where: mend the loader, and leave the
file there, where the cpu tier tries it again. Minutes are the fuzzing process's own, so that a busy machine gives no
false figure; with ``--corpus`` the inputs and the minutes of several runs add up, interrupted ones too. Exit status 0
when none was found.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FINDINGS = Path(__file__).parent / "findings"
FOLDER = "SHARDGATE_FUZZ_FOLDER"
"""The variable that tells the process that fuzzes where its files are."""
PROGRESS = re.compile(r"cov: (?P<coverage>\d+) ft: (?P<features>\d+)")
"""What libFuzzer prints whenever an input takes a new branch."""


def main() -> int:
    """Fuzz in a process of its own, since libFuzzer ends the one that it runs in; 2 where atheris is missing."""
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: atheris is not installed: pip install -e .[fuzz]", file=sys.stderr)
        return 2
    if FOLDER in os.environ:
        from correctness_tests.suite.fuzz.engine import fuzz

        fuzz(sys.argv[1], float(sys.argv[2]), Path(os.environ[FOLDER]), Path(sys.argv[3]))
    options = _options()
    with tempfile.TemporaryDirectory(prefix="shardgate-fuzz-") as name:
        folder = Path(name)
        kept = options.corpus.absolute() if options.corpus else folder
        corpus = kept / options.loader
        corpus.mkdir(parents=True, exist_ok=True)
        status, coverage = _run([options.loader, str(options.minutes), str(corpus)], folder)
        status = keep_artifacts(options.loader, folder) or status
        print(account(options.loader, folder / "counts.json", kept / f"{options.loader}.runs", coverage))
    return status


def _options() -> argparse.Namespace:
    from correctness_tests.suite.fuzz.loaders import LOADERS

    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.fuzz", description=__doc__)
    parser.add_argument("loader", choices=LOADERS)
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M", help="of CPU time; default: 1")
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help="keep inputs and counts there, and go on from it")
    return parser.parse_args()


def _run(arguments: list[str], folder: Path) -> tuple[int, dict[str, int]]:
    """Exit status of the process that fuzzes, and the coverage that it reached; what it prints is passed on."""
    command = [sys.executable, "-m", "correctness_tests.suite.fuzz", *arguments]
    environment = {**os.environ, FOLDER: str(folder), "TMPDIR": str(folder)}
    coverage: dict[str, int] = {}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                sys.stderr.write(line)
                if found := PROGRESS.search(line):
                    coverage = {name: int(value) for name, value in found.groupdict().items()}
        except KeyboardInterrupt:
            process.terminate()
    return process.returncode, coverage


def keep_artifacts(loader: str, folder: Path) -> int:
    """Move what libFuzzer itself stopped at (no end, no memory left, a fatal signal) to the findings: how many."""
    found = [path for kind in ("timeout", "oom", "crash", "leak") for path in folder.glob(f"{kind}-*")]
    known = {path.read_bytes() for path in FINDINGS.iterdir()}
    for path in found:
        if (data := path.read_bytes()) not in known:
            kept = FINDINGS / f"{loader}-{path.name[:24]}"
            kept.write_bytes(data)
            print(f"fuzz: {loader} was broken by {kept}", file=sys.stderr)
    return len(found)


def account(loader: str, counts: Path, runs: Path, coverage: dict[str, int]) -> str:
    """One line: this run's CPU minutes, inputs and coverage, and the sums of all that are noted beside the corpus."""
    if not counts.exists():
        return f"fuzz: {loader}: ended before the first input"
    ran = {**json.loads(counts.read_text()), **coverage}
    with runs.open("a") as file:
        file.write(json.dumps(ran) + "\n")
    every = [json.loads(line) for line in runs.read_text().splitlines()]
    minutes, inputs = (sum(run[name] for run in every) for name in ("cpu_minutes", "inputs"))
    return (
        f"fuzz: {loader}: {ran['cpu_minutes']:.2f} CPU minutes, {ran['inputs']:,} inputs, "
        f"{coverage.get('coverage', 0):,} branches, {coverage.get('features', 0):,} features; "
        f"in all {minutes:.2f} CPU minutes, {inputs:,} inputs in {len(every)} runs"
    )


if __name__ == "__main__":
    sys.exit(main())
