"""Opens a page in a real browser and says what is wrong with it; needs the extra ``browser``.

``python -m correctness_tests.suite.browser PAGE.html PICTURE.png`` takes a picture of the top of a page, light and
dark side by side.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixtures.extras import BROWSER

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
"""Of axe-core: contrast, names of images, headers of tables, headings, landmarks, what a keyboard reaches."""

CONTRAST = 4.5
"""WCAG 2.2, level AA, for text."""

SVG_TEXT = """
() => {
  const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = color => color.match(/[\\d.]+/g).map(Number);
  const under = text => {
    text.scrollIntoView({block: 'center', inline: 'center'});
    const box = text.getBoundingClientRect();
    const below = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    let seen = null;
    for (const element of below) {
      if (element.closest('text') || !(element instanceof SVGGeometryElement)) continue;
      const style = getComputedStyle(element);
      let fill = style.fill;
      if (fill.startsWith('url')) fill = document.getElementById(fill.match(/#([^")]+)/)[1])
        .querySelector('rect').getAttribute('fill');
      if (fill === 'none' || style.fillOpacity < 0.5 || style.opacity < 0.5) continue;
      const probe = document.createElement('i');
      probe.style.color = fill;
      document.body.append(probe);
      seen = getComputedStyle(probe).color;
      probe.remove();
      break;
    }
    return seen || getComputedStyle(document.body).backgroundColor;
  };
  const faults = [];
  for (const text of document.querySelectorAll('svg text')) {
    const [a, b] = [numbers(getComputedStyle(text).fill), numbers(under(text))].map(light).sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < CONTRAST) faults.push(`contrast ${ratio.toFixed(2)} of "${text.textContent}" in a picture`);
  }
  return faults;
}
""".replace("CONTRAST", str(CONTRAST))
"""axe-core passes over the text inside pictures: its colour against the shape under it."""

OVERFLOW = """
() => [...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, pre, .skip, thead'))
  .slice(0, 5).map(e => `wider than the window: <${e.tagName.toLowerCase()}> "${e.textContent.trim().slice(0, 60)}"`)
"""


@contextmanager
def opened() -> Iterator[Browser]:
    """A headless Chromium: the system's where it has one, else playwright's own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER.program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def faults_of(browser: Browser, path: Path, width: int, scheme: Any, rules: bool = True) -> list[str]:
    """What is wrong with the page at this width in CSS pixels and colour scheme: a line each.

    Errors on the console, requests beyond the file, overflow, and, if asked for, axe-core's rules and the contrast of
    text in pictures.
    """
    faults: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("console", lambda message: faults.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("request", lambda request: faults.append(f"request: {request.url}") if is_outside(request.url) else None)
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    if page.evaluate("document.documentElement.scrollWidth") > width:
        faults += page.evaluate(OVERFLOW) or ["the page is wider than the window"]
    if rules:
        faults += _violations(page) + page.evaluate(SVG_TEXT)
    page.close()
    return faults


def is_outside(url: str) -> bool:
    """Whether a request leaves the file itself."""
    return not url.startswith(("file:", "data:"))


def _violations(page: Page) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options=RULES).response["violations"]
    return [f"{v['id']}: {v['help']}: {node['target']} {node['html'][:150]}" for v in found for node in v["nodes"]]


def take_picture(browser: Browser, path: Path, picture: Path, width: int = 1040, height: int = 800) -> None:
    """What a reader sees first, as PNG, the light page beside the dark one."""
    from PIL import Image

    shots = []
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto(path.as_uri())
        shots.append(Image.open(io.BytesIO(page.screenshot())))
        page.close()
    both = Image.new("RGB", (2 * width, height))
    for i, shot in enumerate(shots):
        both.paste(shot, (i * width, 0))
    both.quantize(128).save(picture, optimize=True)


if __name__ == "__main__":
    with opened() as started:
        take_picture(started, Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
