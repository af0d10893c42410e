"""A page opened in a real browser: no error, no request, no overflow, every image named, every text legible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from correctness_tests.suite.browser import faults_of, opened
from correctness_tests.suite.pages import NIGHT, nights, regressed, run_of, wide_run
from correctness_tests.suite.synthetic import ARMS
from fixtures.report.gallery import pictures
from fixtures.report.pages import render_page
from fixtures.report.trends import trends_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.cpu, pytest.mark.browser]

WIDTHS = (390, 1280)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all pages."""
    with opened() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good night, one that drifts, a bad one with all that a page can show, one without a baseline, a wide one."""
    folder = tmp_path_factory.mktemp("pages")
    full = regressed(failures={"fsdp1": "rank 2 " + "failed" * 40}, complaints=["lost: " + "a/case" * 30])
    drifting = run_of(replace(NIGHT, arms={**ARMS, "ddp": ARMS["ddp"].scaled(peak=1.02)}))
    texts = {
        "good": render_page(run_of()),
        "drifting": render_page(drifting),
        "bad": render_page(full, pictures(full)),
        "undecided": render_page(run_of(baseline=None)),
        "wide": render_page(replace(wide_run(100), trends=trends_of(nights(60, 17)))),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wrong(browser: Browser, pages: dict[str, Path], width: int, scheme: str) -> None:
    """The fullest page, on a phone and on a desk, light and dark: axe-core, pictures, overflow, requests."""
    assert faults_of(browser, pages["bad"], width, scheme) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["good", "drifting", "undecided"])
def test_no_banner_is_wrong(browser: Browser, pages: dict[str, Path], name: str, scheme: str) -> None:
    """Every other colour of banner and verdict, light and dark."""
    assert faults_of(browser, pages[name], min(WIDTHS), scheme) == []


@pytest.mark.parametrize("width", [320, *WIDTHS, 800, 1000, 1240])
@pytest.mark.parametrize("name", ["bad", "wide"])
def test_nothing_overflows(browser: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    """The fullest page, and 102 rows with long names, at every width at which the tables change, and beside it."""
    assert faults_of(browser, pages[name], width, "light", rules=False) == []


PLANTED = {
    "request": '<img alt="x" src="http://127.0.0.1:9/x.png">',
    "console": "<script>console.error('broken')</script>",
    "script": "<script>throw new Error('broken')</script>",
    "wider than the window": '<div style="width: 3000px">wide</div>',
    "image-alt": '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">',
    "svg-img-alt": '<svg role="img" width="9" height="9"></svg>',
    "color-contrast": '<p style="color: #ccc">pale</p>',
    "in a picture": '<svg role="img" aria-label="x" width="90" height="20"><rect width="90" height="20" fill="#ccc"/>'
    '<text y="15" style="fill: #999">pale</text></svg>',
    "empty-table-header": '<table><tr><th scope="col"></th></tr><tr><td>1</td></tr></table>',
}


@pytest.mark.parametrize("found", PLANTED)
def test_what_is_wrong_is_seen(browser: Browser, pages: dict[str, Path], found: str) -> None:
    """Each fault, planted in a good page (whose policy would stop some of them), is named."""
    text = (
        pages["good"].read_text(encoding="utf-8").replace("default-src 'none'", "default-src * 'unsafe-inline' data:")
    )
    path = pages["good"].with_name("planted.html")
    path.write_text(
        text.replace("style-src 'unsafe-inline'; img-src data:", "").replace("</main>", PLANTED[found] + "</main>")
    )
    assert [fault for fault in faults_of(browser, path, 1280, "light") if found in fault]
