"""A table of a command is plain text of at most 100 columns on a terminal, and Markdown on its page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.errors import UsageError
from fixtures.report.grids import Grid, filled, markdown_of, text_of

pytestmark = pytest.mark.cpu

SMALL = Grid("a title", ["arm", "step, ms"], [["ddp", "**12.0**"], ["fsdp2", "9.0"]])
WIDE = Grid("wide", ["arm", *(f"{x}: step, ms" for x in "abc")], [["ddp", *["123.0 to 456.0 (-22.5% to -19.6%)"] * 3]])
PAGE = "before\n<!-- table: one -->\nold\n<!-- end -->\nafter\n"


def test_a_page_gets_markdown() -> None:
    """A rule under the heads, figures to the right, bold as Markdown has it."""
    assert markdown_of(SMALL).splitlines() == [
        "| arm | step, ms |",
        "| --- | ---: |",
        "| ddp | **12.0** |",
        "| fsdp2 | 9.0 |",
    ]


def test_a_terminal_gets_text() -> None:
    """The title, aligned columns, and no sign of Markdown."""
    assert text_of(SMALL).splitlines() == [
        "a title",
        "arm     step, ms",
        "------------------",
        "ddp         12.0",
        "fsdp2        9.0",
    ]


def test_a_wide_table_breaks_before_its_brackets() -> None:
    """What does not fit in 100 columns takes two lines a row, broken where a person would break it."""
    lines = text_of(WIDE).splitlines()
    assert [" ".join(line.split()) for line in lines[-2:]] == [
        "ddp 123.0 to 456.0 123.0 to 456.0 123.0 to 456.0",
        "(-22.5% to -19.6%) (-22.5% to -19.6%) (-22.5% to -19.6%)",
    ]
    assert [" ".join(line.split()) for line in lines[1:3]] == ["a b c", "arm step, ms step, ms step, ms"]


@given(st.lists(st.lists(st.text(max_size=40), min_size=3, max_size=3), min_size=1, max_size=4))
def test_whatever_it_holds_it_fits(rows: list[list[str]]) -> None:
    """Any text in any cell: ASCII, at most 100 columns."""
    text = text_of(Grid("t", ["a", "b", "c"], rows))
    assert text.isascii()
    assert [line for line in text.splitlines() if len(line) > 100] == []


def test_a_table_has_its_place_on_a_page() -> None:
    """What stood between the markers is replaced, and nothing else."""
    assert filled(PAGE, {"one": SMALL}) == PAGE.replace("old", markdown_of(SMALL))


@pytest.mark.parametrize("page", ["nothing\n", PAGE.replace("<!-- end -->\n", ""), PAGE + PAGE])
def test_a_page_without_its_place_is_refused(page: str) -> None:
    """A place too few or too many, or one that does not end, is named."""
    with pytest.raises(UsageError, match=r"Give each its place: <!-- table: NAME -->, and <!-- end --> after it"):
        filled(page, {"one": SMALL})
