"""Property: the page on memory shows what the ledger says today."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.report.grids import markdown_of
from perf_tests import phase_table

pytestmark = pytest.mark.cpu

PAGE = Path(__file__).resolve().parents[1] / "docs" / "memory.md"


def test_the_page_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of the command's table stands in docs/memory.md; put the new ones there if the ledger changed."""
    assert phase_table.main(["--workload", "gpt2-large", "--world-size", "8"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    grid, peaks = phase_table.tables("gpt2-large", 8)
    page = PAGE.read_text(encoding="utf-8").splitlines()
    missing = [line for line in [*markdown_of(grid).splitlines(), *peaks] if line not in page]
    assert not missing, "docs/memory.md lacks these lines of perf_tests.phase_table:\n" + "\n".join(missing)
    assert all(" ".join(row) in printed for row in grid.rows)
    assert all(peak in printed for peak in peaks)
