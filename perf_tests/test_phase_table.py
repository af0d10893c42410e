"""Property: the page on memory shows what the ledger says today."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf_tests import phase_table

pytestmark = pytest.mark.cpu

PAGE = Path(__file__).resolve().parents[1] / "docs" / "memory.md"


def test_the_page_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of the command's output stands in docs/memory.md; put the new ones there if the ledger changed."""
    assert phase_table.main(["--workload", "gpt2-large", "--world-size", "8"]) == 0
    page = PAGE.read_text(encoding="utf-8").splitlines()
    missing = [line for line in capsys.readouterr().out.splitlines() if line not in page]
    assert not missing, "docs/memory.md lacks these lines of perf_tests.phase_table:\n" + "\n".join(missing)
