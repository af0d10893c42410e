"""A text from elsewhere is text wherever it is shown: on a page, a terminal, GitHub, in a table; it does nothing there.

Markdown has the same in test_report_markdown.py, single signs of a workflow command in test_github.py.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from correctness_tests.suite.nights import night
from correctness_tests.suite.pages import regressed
from correctness_tests.suite.synthetic import Job, accepted
from correctness_tests.suite.test_page import Document
from fixtures.accounts import Account
from fixtures.gate.comparisons import Comparison, compare
from fixtures.history.exports import otava_csv
from fixtures.report.messages import failure_message
from fixtures.report.pages import Run, render_page
from fixtures.report.tables import arms_table, render, verdict_table
from fixtures.report.text import noted, plain, wrapped
from fixtures.session.github import Failure, GitHub

pytestmark = pytest.mark.cpu

PIECES = (
    *("<script>alert(1)</script>", "</td></tr></table>", "<img src=x onerror=alert(1)>", "</style><base href=//x>"),
    *(
        '"',
        "'",
        "`",
        "&lt;",
        "&#106;avascript:",
        "javascript:alert(1)",
        "//example.com/",
        "data:text/html,x",
        "{{ 7*7 }}",
    ),
    *(
        "\x1b[2J",
        "\x1b]8;;http://x\x07",
        "\x9b31m",
        "\u202e",
        "\u2028",
        "\x85",
        "\r\n",
        "\n",
        "\0",
        "\udcff",
        "\U0001f600",
    ),
    *("::error::x", "::stop-commands::y", "##[error]z", "%0A::add-mask::a", "=cmd|' /C calc'!A0", "@SUM(A1)", "|", " "),
)
"""What means something somewhere: HTML, addresses, templates, terminals, GitHub's log, spreadsheets."""
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), min_size=1, max_size=6).map("".join).filter(bool)
ALL = "".join(PIECES)
ACTIONS = GitHub.of({"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/home/x/repo"})
FULL = regressed()


def with_texts(text: str) -> Run:
    """The fullest run, and this text in all that a run has of texts."""
    return replace(
        FULL,
        measurements=[
            m.model_copy(
                update={
                    "workload": m.workload.model_copy(update={"name": text}),
                    "provenance": m.provenance.model_copy(
                        update={
                            "commit": text,
                            "date": text,
                            "stack": m.provenance.stack.model_copy(update={"torch": text}),
                        }
                    ),
                }
            )
            for m in FULL.measurements
        ],
        comparisons=[named(c, text) for c in FULL.comparisons],
        failures={text: text},
        failed_checks={text: text},
        complaints=[text],
        notes=[text],
        shifts=[text],
        results=text,
        command=["pytest", text],
        traces=[f"traces/{text}"],
        accounts=[Account(name="x", unit="ms", ledger=1.0).model_copy(update={"name": text, "note": text})],
        network=text,
    )


def named(c: Comparison, text: str) -> Comparison:
    """The comparison of a workload of that name, its baseline accepted for that reason."""
    case = c.case.model_copy(update={"workload": text})
    baseline = c.baseline
    if baseline is not None:
        provenance = baseline.provenance.model_copy(update={"reason": text, "date": text, "commit": text})
        baseline = baseline.model_copy(update={"provenance": provenance})
    judgement = c.judgement.model_copy(update={"reason": text, "warning": text})
    return c.model_copy(update={"case": case, "baseline": baseline, "judgement": judgement, "moved_arm": text})


def skeleton(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """A page's elements with the names of their attributes, in order."""
    return [(tag, tuple(attributes)) for tag, attributes in Document(page).tags]


BARE = skeleton(render_page(with_texts("plain")))


@settings(max_examples=15)
@given(TEXTS)
@example(ALL)
def test_no_text_adds_an_element_or_an_address(text: str) -> None:
    """A page has the same elements and attributes whatever its texts are, and each link stays on the page or in its
    folder."""
    page = render_page(with_texts(text))
    assert skeleton(page) == BARE
    for attributes in (a for _, a in Document(page).tags):
        for name in ("href", "src", "style"):
            value = attributes.get(name) or ""
            place = urlsplit(value)
            assert value == "data:," or not (place.scheme or place.netloc), value


def is_command(line: str) -> bool:
    """Whether the log of GitHub Actions takes a line for a command."""
    return line.strip().startswith("::") or "##[" in line


@given(TEXTS)
@example(ALL)
def test_no_text_moves_the_cursor_or_commands_github(text: str) -> None:
    """Messages, notes and tables: printable ASCII, no line a workflow command wherever the text is broken."""
    compared = [named(c, text) for c in FULL.comparisons[:2]]
    workloads = [m.workload.model_copy(update={"name": text}) for m in FULL.measurements[:2]]
    measured = [m.model_copy(update={"workload": w}) for m, w in zip(FULL.measurements, workloads, strict=False)]
    shown = [failure_message(c, evidence=[text], network=text) for c in compared]
    shown += [render(verdict_table(compared)), render(arms_table(measured)), "\n".join(noted(text)), plain(text)]
    shown += ["\n".join(wrapped("note", "x" * n + text)) for n in (60, 62, 64)]
    for line in (line for each in shown for line in each.split("\n")):
        assert all(" " <= c <= "~" for c in line), line
        assert not is_command(line), line


@given(TEXTS, TEXTS)
@example(ALL, ALL)
def test_an_annotation_is_one_command(title: str, message: str) -> None:
    """Any failure is one line, one command; GitHub reads back the title and the message that it was given."""
    (line,) = ACTIONS.annotations([Failure(Path("t.py"), 3, title, message)])
    assert "\n" not in line
    assert "\r" not in line
    fields, _, data = line.removeprefix("::error ").partition("::")
    told = dict(field.split("=", 1) for field in fields.split(","))
    assert told.keys() == {"file", "line", "title"}
    assert unescaped(told["title"]) == title[:200]
    assert unescaped(data) == message


def unescaped(text: str) -> str:
    """As GitHub's runner reads a property or a message."""
    for escaped, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escaped, sign)
    return text


@given(TEXTS.map(lambda text: re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "", text) or "x"))
def test_no_cell_of_a_table_is_a_formula(text: str) -> None:
    """What leaves the history as CSV (it keeps no control characters) has as many cells as before, and a text in one is
    text to a spreadsheet."""
    kept = night(0)
    hostile = kept.model_copy(update={"commit": text, "stack": kept.stack.model_copy(update={"torch": text})})
    made, _ = otava_csv([hostile], kept.comparisons[0].case.workload)
    header, row = csv.reader(io.StringIO(made, newline=""))
    assert len(row) == len(header)
    assert {cell in (text, f"'{text}") for cell in row[1:3]} == {True}
    assert not any(cell.startswith(tuple("=+-@|%")) for cell in row)


def test_the_reader_sees_what_is_added() -> None:
    """The controls: a page, a line and a cell that are not made safe are found."""
    page = render_page(with_texts("plain")).replace("plain", "<b onclick=x>plain</b>", 1)
    assert skeleton(page) != BARE
    assert is_command("   ::error::x")
    assert is_command("a ##[error]x")
    assert compare(Job().measurements(), accepted(), True)[0].case.id.isprintable()
