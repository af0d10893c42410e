"""The process that fuzzes: atheris' loop round one loader, bounded by CPU time and never by the clock."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from correctness_tests.suite.fuzz.__main__ import FINDINGS
from correctness_tests.suite.fuzz.trees import mutated

TOKENS = ("NaN", "Infinity", "1e999", "-1", "null", "true", "[[[[", '{"', '":', "9" * 25, "\\ud800", "\\u0000", ":")
IMPORTED_LATE = ("fixtures.platforms", "fixtures.workloads")
"""What a loader imports only when it runs, because of torch: imported after instrumentation no branch would be seen."""
MAX_INPUT_BYTES = 20_000
INPUT_CPU_S = 10.0
"""CPU seconds that one input may take: a starved process has used none while it waits."""
NEVER_S = 7200
"""libFuzzer's own limit of one input, by the clock: only for a loop in C, which no Python handler interrupts."""
NOTED_EVERY = 500
"""Inputs after which the count is written down, for whoever interrupts."""


class TooSlow(BaseException):
    """One input has used up its CPU time; no loader's ``except Exception`` hides it."""


def fuzz(loader: str, minutes: float, folder: Path, corpus: Path) -> None:
    """Fuzz until the CPU time is used up or an input has broken the loader; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["fixtures"]):
        from correctness_tests.suite.fuzz.loaders import attempt, seeds

        for module in IMPORTED_LATE:
            importlib.import_module(module)

    begun = time.process_time()
    tried = 0

    def one(data: bytes) -> None:
        nonlocal tried
        tried += 1
        try:
            with bounded(INPUT_CPU_S):
                attempt(loader, data)
        except BaseException:
            found = FINDINGS / f"{loader}-{hashlib.sha256(data).hexdigest()[:12]}"
            found.write_bytes(data)
            print(f"\nfuzz: {loader} was broken by {found}", file=sys.stderr)
            count()
            raise
        over = time.process_time() - begun >= 60 * minutes
        if over or tried % NOTED_EVERY == 0:
            count()
        if over:
            sys.stderr.flush()
            os._exit(0)

    def count() -> None:
        counts = {"cpu_minutes": (time.process_time() - begun) / 60, "inputs": tried}
        (folder / "counts.json").write_text(json.dumps(counts))

    for number, seed in enumerate(seeds(loader)):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *_limits(folder), str(corpus)], one, custom_mutator=_mutate)
    atheris.Fuzz()


def _mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Every other time an edit of the tree, since edits of bytes seldom leave JSON whole."""
    import atheris

    draw = random.Random(seed)
    if draw.random() < 0.5:
        with contextlib.suppress(ValueError, RecursionError):
            return mutated(data, draw)[:max_size]
    return bytes(atheris.Mutate(data, max_size))


class bounded:  # noqa: N801 - reads as the statement that it is
    """Raise ``TooSlow`` in the block once it has used so many CPU seconds of this process."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGPROF, self._over)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _over(self, _number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {self.seconds:g} CPU seconds")


def _limits(folder: Path) -> list[str]:
    """What libFuzzer bounds itself: sizes and memory."""
    tokens = folder / "tokens"
    tokens.write_text("\n".join(f'"{_quoted(token)}"' for token in TOKENS))
    limits = {"max_len": MAX_INPUT_BYTES, "timeout": NEVER_S, "rss_limit_mb": 4096, "dict": tokens}
    return [*(f"-{name}={value}" for name, value in limits.items()), f"-artifact_prefix={folder}/"]


def _quoted(token: str) -> str:
    """As libFuzzer's dictionaries want it."""
    return token.replace("\\", "\\\\").replace('"', '\\"')
