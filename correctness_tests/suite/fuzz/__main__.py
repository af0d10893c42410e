"""Fuzz one loader for some minutes with atheris, which learns from the branches that an input takes.

Stops at the first input that breaks it, keeps that in ``findings/`` and prints where: mend the loader, and leave the
file there, where the cpu tier tries it again. Exit status 0 when none was found.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

FINDINGS = Path(__file__).parent / "findings"
TOKENS = ("NaN", "Infinity", "1e999", "-1", "null", "true", "[[[[", '{"', '":', "9" * 25, "\\ud800", "\\u0000", ":")
MAX_INPUT_BYTES = 20_000
FOLDER = "SHARDGATE_FUZZ_FOLDER"
"""The variable that tells the process that fuzzes where its files are."""


def main() -> int:
    """Fuzz in a process of its own, since libFuzzer ends the one that it runs in; 2 where atheris is missing."""
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: atheris is not installed: pip install -e .[fuzz]", file=sys.stderr)
        return 2
    if FOLDER in os.environ:
        fuzz(sys.argv[1], float(sys.argv[2]), Path(os.environ[FOLDER]))
    from correctness_tests.suite.fuzz.loaders import LOADERS

    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.fuzz", description=__doc__)
    parser.add_argument("loader", choices=LOADERS)
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M", help="default: 1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shardgate-fuzz-") as folder:
        command = [sys.executable, "-m", "correctness_tests.suite.fuzz", options.loader, str(options.minutes)]
        return subprocess.run(command, env={**os.environ, FOLDER: folder, "TMPDIR": folder}, check=False).returncode


def fuzz(loader: str, minutes: float, folder: Path) -> None:
    """Fuzz until the time is up or an input has broken the loader; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["fixtures.gate", "fixtures.report", "fixtures.measurements"]):
        from correctness_tests.suite.fuzz.loaders import attempt, seeds
    from correctness_tests.suite.fuzz.trees import mutated

    def one(data: bytes) -> None:
        try:
            attempt(loader, data)
        except BaseException:
            found = FINDINGS / f"{loader}-{hashlib.sha256(data).hexdigest()[:12]}"
            found.write_bytes(data)
            print(f"\nfuzz: {loader} was broken by {found}", file=sys.stderr)
            raise

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        """Every other time an edit of the tree, since edits of bytes seldom leave JSON whole."""
        draw = random.Random(seed)
        if draw.random() < 0.5:
            with contextlib.suppress(ValueError, RecursionError):
                return mutated(data, draw)[:max_size]
        return bytes(atheris.Mutate(data, max_size))

    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds(loader)):
        (corpus / f"seed-{number}").write_bytes(seed)
    (folder / "tokens").write_text("\n".join(f'"{_quoted(token)}"' for token in TOKENS))
    limits = [f"-max_total_time={round(minutes * 60)}", f"-max_len={MAX_INPUT_BYTES}", "-timeout=10"]
    limits += [
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
        f"-dict={folder / 'tokens'}",
        f"-artifact_prefix={folder}/",
    ]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], one, custom_mutator=mutate)
    atheris.Fuzz()


def _quoted(token: str) -> str:
    """As libFuzzer's dictionaries want it."""
    return token.replace("\\", "\\\\").replace('"', '\\"')


if __name__ == "__main__":
    sys.exit(main())
