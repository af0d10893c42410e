"""The Markdown of a run: what failed first, within GitHub's limits, and no name in it is anything but text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from syrupy.assertion import SnapshotAssertion

from correctness_tests.suite.judging import NIGHT, slipped
from correctness_tests.suite.synthetic import accepted
from fixtures.errors import UsageError
from fixtures.gate.comparisons import Comparison, compare
from fixtures.report.judged import load_verdicts, save_judged
from fixtures.report.markdown import cell, code, fenced
from fixtures.report.summary import COMMENT_LIMIT, LEAST, main, markdown
from fixtures.report.text import plain

pytestmark = pytest.mark.cpu

BASELINE = accepted(NIGHT)
BAD = compare(slipped("fsdp2", step=1.14, resident=1.02).measurements(), BASELINE, gate_times=True)
GOOD = compare(replace(NIGHT, seed=1).measurements(), BASELINE, gate_times=True)
READER = MarkdownIt("commonmark").enable("table")


def many(count: int) -> list[Comparison]:
    """So many copies of a bad night's comparisons, each of a workload of its own."""
    return [
        c.model_copy(update={"case": c.case.model_copy(update={"workload": f"model-{number}"})})
        for number in range(count)
        for c in BAD
    ]


def test_a_bad_night_reads_as_stored(snapshot: SnapshotAssertion) -> None:
    """Headline, table, the message of each case that failed, complaints and notes: to the letter."""
    text = markdown(BAD, limit=COMMENT_LIMIT, complaints=["lost: a case"], notes=["measurements: results/x"])
    assert text == snapshot


def test_a_good_night_reads_as_stored(snapshot: SnapshotAssertion) -> None:
    """A headline and a table."""
    assert markdown(GOOD, limit=COMMENT_LIMIT) == snapshot


@pytest.mark.parametrize("limit", [LEAST, 3000, 10_000, COMMENT_LIMIT])
@pytest.mark.parametrize("count", [1, 10, 300])
def test_the_limit_is_kept(count: int, limit: int) -> None:
    """However many cases: within the limit in bytes, no block left open, and a line counts what was left out."""
    text = markdown(many(count), limit=limit, complaints=["lost: " + "x" * 90] * count, notes=["n" * 70] * 100)
    assert len(text.encode()) <= limit
    assert ("left out: the summary has a limit of size" in text) == (count == 300 or limit < COMMENT_LIMIT)
    assert text.count("<details>") == text.count("</details>")


def test_what_failed_is_left_out_last() -> None:
    """Rows that are cut are the best ones: the first rows are of what failed."""
    comparisons = [*many(40), *GOOD]
    text = markdown(comparisons, limit=8000)
    rows = [line for line in text.splitlines() if line.startswith("| <code>")]
    assert rows
    assert all("**REGRESSED**" in row or "**IMPROVED**" in row for row in rows)
    assert f"{len(comparisons) - len(rows)} of {len(comparisons)} rows left out" in text


def test_one_mebibyte_holds_a_hundred_failures() -> None:
    """The limit of a job summary leaves nothing of a hundred cases out."""
    assert "left out" not in markdown(many(50), limit=1024**2)


HOSTILE = [
    "a|b",
    "<script>alert(1)</script>",
    "</code></td></table><h1>x",
    "```\n# x\n```",
    "@everyone #1 org/repo#2 www.example.com https://example.com",
    "![x](https://example.com/x.png) [y](z) **b** _i_ `c` ~~d~~ :smile:",
    "&lt; &#64;",
    "\x1b[31mred\x07",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_only_text(name: str) -> None:
    """A workload of any name: as many rows and blocks as before, no tag but ours, and no link."""
    bare = compare(NIGHT.measurements(), None, gate_times=True)
    named = bare[0].case.model_copy(update={"workload": name})
    compared = [c.model_copy(update={"case": named.model_copy(update={"metric": c.case.metric})}) for c in bare]
    text = markdown(compared, limit=COMMENT_LIMIT, complaints=[name], notes=[name])
    tokens = READER.parse(text)
    kinds = [token.type for token in tokens]
    inline = [child for token in tokens for child in token.children or () if token.type == "inline"]
    assert kinds.count("tr_open") == 1 + len(compared)
    assert kinds.count("fence") == len(compared) + 1
    assert {child.content for child in inline if child.type == "html_inline"} <= {"<code>", "</code>"}
    assert {child.type for child in inline} <= {"text", "html_inline", "strong_open", "strong_close", "softbreak"}
    assert kinds.count("heading_open") == 1


@given(st.text())
def test_a_cell_shows_what_it_was_given(text: str) -> None:
    """Any text comes back from a reader of Markdown as its printable form, and nothing else with it."""
    (paragraph,) = [token for token in READER.parse(f"x{cell(text)}x") if token.type == "inline"]
    assert all(child.type == "text" for child in paragraph.children or ())
    assert "".join(child.content for child in paragraph.children or ()) == f"x{plain(text)}x"


@given(st.text(alphabet="`~a \n"))
def test_a_fence_is_not_left(text: str) -> None:
    """Whatever backticks a message has, it is one block."""
    assert [token.type for token in READER.parse(fenced(text))] == ["fence"]


def test_code_holds_no_reference() -> None:
    """An at sign and a hash are escaped, and stand in code, where GitHub calls nobody."""
    assert code("@me #1") == "<code>&#64;me &#35;1</code>"


def test_stored_verdicts_become_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m fixtures.report.summary`` writes what a run's own verdicts say, for ``gh pr comment --body-file``."""
    save_judged(tmp_path, BAD, None)
    assert load_verdicts(tmp_path) == sorted(BAD, key=lambda c: c.case.id)
    assert main([str(tmp_path), "--limit", "65536", "--out", str(tmp_path / "comment.md")]) == 0
    assert (tmp_path / "comment.md").read_text() == markdown(BAD, limit=COMMENT_LIMIT)
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == (tmp_path / "comment.md").read_text()


def test_verdicts_without_a_baseline_are_read_back(tmp_path: Path) -> None:
    """What is absent from the file is None again: cases that nothing was accepted for, and those without a ratio."""
    night = NIGHT.measurements()
    for judged in (compare(night, None, gate_times=False), compare(night[:-1], None, True, ["a rank is missing"])):
        bare = [c.model_copy(update={"estimate": None}) for c in judged]
        save_judged(tmp_path, bare, None)
        assert load_verdicts(tmp_path) == sorted(bare, key=lambda c: c.case.id)


def test_what_a_user_can_mend_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No verdicts, broken ones, a limit too low: exit status 2 and the remedy."""
    assert main([str(tmp_path)]) == 2
    assert "Judge the results first: pytest perf_tests -m gpu --from-results" in capsys.readouterr().err
    save_judged(tmp_path, GOOD, None)
    assert main([str(tmp_path), "--limit", "10"]) == 2
    assert "pass 1024 or more" in capsys.readouterr().err
    path = tmp_path / "judged" / "verdicts.json"
    path.write_text(path.read_text().replace('"PASS"', '"FINE"'))
    with pytest.raises(UsageError, match=r"verdicts\.json: 0 > judgement > verdict: "):
        load_verdicts(tmp_path)
