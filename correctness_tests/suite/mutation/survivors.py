"""Mutants that no test kills, each with a reason: ``survivors.toml``.

One table a changed line: ``was``, what it ``becomes`` (one or several mutants of it), and ``why`` nothing can tell, or
why nothing should.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True)
class Explained:
    """Mutants of one line that may live."""

    was: str
    becomes: tuple[str, ...]
    why: str


def explanations(text: str | None = None) -> dict[str, list[Explained]]:
    """By module; ValueError where a reason is missing or an entry has another key."""
    found: dict[str, list[Explained]] = {}
    for module, entries in tomllib.loads(FILE.read_text(encoding="utf-8") if text is None else text).items():
        for entry in entries:
            if set(entry) != {"was", "becomes", "why"} or not str(entry["why"]).strip():
                raise ValueError(f"{FILE.name}, {module}: an entry has was, becomes and why, all filled in: {entry}")
            found.setdefault(module, []).append(Explained(entry["was"], tuple(entry["becomes"]), entry["why"]))
    return found


def unexplained(
    living: Iterable[tuple[str, str]], explained: Iterable[Explained]
) -> tuple[list[tuple[str, str]], list[Explained]]:
    """Of the living (was, becomes): those without a reason; and the reasons of which some mutant is not among them."""
    living, explained = list(living), list(explained)
    known = {(entry.was, becomes) for entry in explained for becomes in entry.becomes}
    idle = [entry for entry in explained if any((entry.was, becomes) not in living for becomes in entry.becomes)]
    return [pair for pair in living if pair not in known], idle
