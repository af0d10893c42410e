"""Run the checks on ranks so many times in one pytest process and its pools; fail when anything grows or slows down.

Judged after the settling rounds: memory, descriptors and threads of pytest, the fork server and each pool's ranks,
temporary files, shared memory, child processes, CPU time of a round. What is not known goes on to pytest: ``-k`` for
fewer checks.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import pytest

RECORDERS, RING = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), "20"
"""torch's flight recorder, of so many collectives: its usual 2000 would grow for as long as the whole soak."""
ROOT = Path(__file__).parents[3]


def main() -> int:
    """Exit status of the session; 1 when something grows."""
    parser = argparse.ArgumentParser(prog="python -m correctness_tests.suite.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument("--minutes", type=float, default=0.0, metavar="M", help="begin no round after so long")
    options, others = parser.parse_known_args()
    paths = [str(path) for path in sorted((ROOT / "correctness_tests").glob("test_*.py"))]
    paths += [str(ROOT / "perf_tests")]
    with tempfile.TemporaryDirectory(prefix="shardgate-soak-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder  # so that every temporary file there is this session's
        os.environ.update(dict.fromkeys(RECORDERS, RING))
        arguments = ["-p", "correctness_tests.suite.soak.rounds", "-m", "cpu", "-q", "-x", "-p", "no:randomly"]
        arguments += ["-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed", f"--rounds={options.rounds}"]
        arguments += ["--hypothesis-profile=ci"]  # the same examples every round: new shapes would fill torch's caches
        arguments += [f"--soak-minutes={options.minutes}", f"--rootdir={ROOT}", f"--config-file={ROOT / 'tox.ini'}"]
        named = any(Path(word.partition("::")[0]).exists() for word in others)
        return int(pytest.main([*arguments, *others, *([] if named else paths)]))


if __name__ == "__main__":
    sys.exit(main())
