"""Fuzz one loader for some minutes with atheris, which learns from the branches that an input takes.

Stops at the first input that breaks it, keeps that in ``findings/`` and prints where: mend the loader, and leave the
file there, where the cpu tier tries it again. Exit status 0 when none was found.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

FINDINGS = Path(__file__).parent / "findings"
TOKENS = (
    "NaN",
    "Infinity",
    "1e999",
    "-1",
    "null",
    "true",
    "[[[[",
    '{"',
    '":',
    "9" * 25,
    "\\ud800",
    "\\u0000",
    "--",
    ":",
)
MAX_INPUT_BYTES = 20_000


def main() -> int:
    """Fuzz; 2 where atheris is not installed."""
    try:
        import atheris
    except ImportError:
        print("fuzz: atheris is not installed: pip install -e .[fuzz]", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["fixtures.gate", "fixtures.report", "fixtures.measurements"]):
        from correctness_tests.suite.fuzz.loaders import LOADERS, attempt, seeds

    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.fuzz", description=__doc__)
    parser.add_argument("loader", choices=LOADERS)
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M", help="default: 1")
    options = parser.parse_args()
    corpus = Path(tempfile.mkdtemp(prefix="shardgate-corpus-"))
    for number, seed in enumerate(seeds(options.loader)):
        (corpus / f"seed-{number}").write_bytes(seed)
    (corpus / "tokens").write_text("\n".join(f'"{_quoted(token)}"' for token in TOKENS))

    def one(data: bytes) -> None:
        try:
            attempt(options.loader, data)
        except BaseException:
            found = FINDINGS / f"{options.loader}-{hashlib.sha256(data).hexdigest()[:12]}"
            found.write_bytes(data)
            print(f"\nfuzz: {options.loader} was broken by {found}", file=sys.stderr)
            raise

    arguments = [
        sys.argv[0],
        f"-max_total_time={round(options.minutes * 60)}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-dict={corpus / 'tokens'}",
        "-timeout=10",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
        f"-artifact_prefix={corpus}/",
        str(corpus),
    ]
    atheris.Setup(arguments, one)
    atheris.Fuzz()  # ends the process
    return 0


def _quoted(token: str) -> str:
    """As libFuzzer's dictionaries want it."""
    return token.replace("\\", "\\\\").replace('"', '\\"')


if __name__ == "__main__":
    sys.exit(main())
