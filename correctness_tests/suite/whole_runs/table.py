"""The matrix as text: a row a fault, and under the table what is not as it must be."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from correctness_tests.suite.whole_runs.judge import Judged, Result
from correctness_tests.suite.whole_runs.matrix import Row
from correctness_tests.suite.whole_runs.session import CPU, REHEARSAL

WIDTH = 120
SHOWN = 600


def line_of(row: Row) -> str:
    """A session as it ended."""
    judged = row.judged
    others = f"; also {summed(judged.others)}" if judged.others else ""
    said = judged.text.splitlines()[0] if judged.text else ""
    return f"{row.name:30} {row.kind:9} {judged.result:11} {row.session.seconds:5.0f} s  {said}{others}"


def summed(cases: Sequence[str]) -> str:
    """Tests by file, with how many of each failed: ``test_a.py (3), test_b.py``."""
    files = Counter(case.partition("::")[0] for case in cases)
    return ", ".join(f"{file} ({count})" if count > 1 else file for file, count in files.items())


def table_of(rows: Sequence[Row]) -> str:
    """A row a name: what came of each kind of session, and which tests failed beside the one that must."""
    names = list(dict.fromkeys(row.name for row in rows))
    found = {(row.name, row.kind): row.judged for row in rows}
    width = max(map(len, names), default=5)
    lines = [f"{'fault':{width}}  {'cpu run':11} {'rehearsal':11} what failed", "-" * WIDTH]
    for name in names:
        cpu, rehearsal = (found.get((name, kind)) for kind in (CPU, REHEARSAL))
        results = [f"{judged.result if judged else '-':11}" for judged in (cpu, rehearsal)]
        failed = "; ".join(filter(None, (_failed(judged) for judged in (cpu, rehearsal))))
        head = f"{name:{width}}  {' '.join(results)} "
        wrapped = textwrap.TextWrapper(WIDTH, head, " " * len(head), break_long_words=False, break_on_hyphens=False)
        lines += wrapped.wrap(failed) or [head.rstrip()]
    return "\n".join(lines)


def _failed(judged: Judged | None) -> str:
    if judged is None or (judged.result is not Result.CAUGHT and not judged.others):
        return ""
    named = judged.text if judged.result is Result.CAUGHT else ""
    return ", ".join(filter(None, (named, summed(judged.others))))


def wrong(rows: Sequence[Row]) -> list[str]:
    """What is not as it must be, a paragraph each."""
    return [
        f"{row.name}, {row.kind}: {row.judged.result}. {row.judged.text[:SHOWN]}"
        for row in rows
        if not row.judged.result.good
    ]


def totals(rows: Sequence[Row]) -> str:
    """One line: how many sessions of each result."""
    counts = Counter(row.judged.result for row in rows)
    return ", ".join(f"{counts[result]} {result}" for result in Result if counts[result]) or "nothing was run"
