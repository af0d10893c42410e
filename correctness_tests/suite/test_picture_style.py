"""A picture is the same wherever it is drawn: an arm keeps its look, and what is not seen is said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from fixtures.measurements import ARMS
from fixtures.report.pictures.style import INK, LOOKS, UNKNOWN, Picture, draw, look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

pytestmark = pytest.mark.cpu


def bars(figure: Figure) -> None:
    """One bar an arm."""
    axes = figure.subplots()
    for i, (arm, style) in enumerate(LOOKS.items()):
        axes.bar(i, 1, color=style.color, hatch=style.hatch, label=f"{arm} <script>")
    axes.legend()


@pytest.fixture(scope="module")
def picture() -> Picture:
    """A picture with text that a user gave."""
    return draw("bars", "<b>title</b> & more", 'said "aloud"', (4, 2), bars)


def test_the_same_figure_gives_the_same_bytes(picture: Picture) -> None:
    """Neither a date nor a random id is in the file."""
    assert draw("bars", picture.title, picture.description, (4, 2), bars).svg == picture.svg


def test_a_picture_says_what_it_shows(picture: Picture) -> None:
    """The root has the role of an image, its title and its description, and escapes them."""
    root = ElementTree.fromstring(picture.svg)
    said = {child.tag.rpartition("}")[2]: child.text for child in root[:2]}
    assert said == {"title": picture.title, "desc": picture.description}
    assert root.get("role") == "img"
    ids = {element.get("id") for element in root.iter()}
    assert set((root.get("aria-labelledby") or "").split()) <= ids


def test_two_pictures_on_a_page_share_no_id(picture: Picture) -> None:
    """Every id, and every reference to one, begins with the picture's name."""
    found = re.findall(r'(?: id="|href="#|url\(#)([^")]+)', picture.svg)
    assert found
    assert all(name.startswith("bars-") for name in found)


def test_a_users_text_is_no_markup(picture: Picture) -> None:
    """A label called <script> is text; and nothing in the file styles the page around it."""
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture.svg).iter()}
    assert not tags & {"script", "style", "image", "foreignObject"}
    assert "&lt;script&gt;" in picture.svg


def test_a_page_can_turn_the_ink(picture: Picture) -> None:
    """Ink is a variable of the page, with a colour for where there is none."""
    assert f"var(--ink, {INK})" in picture.svg
    assert INK not in picture.svg.replace(f"var(--ink, {INK})", "")


def test_a_users_settings_of_matplotlib_change_nothing(picture: Picture) -> None:
    """What was set outside (a matplotlibrc, a notebook) does not reach a picture, and is left as it was."""
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.linewidth": 9, "xtick.major.size": 20}):
        assert draw("bars", picture.title, picture.description, (4, 2), bars).svg == picture.svg
        assert matplotlib.rcParams["font.size"] == 30


def test_arms_stay_apart_without_colour() -> None:
    """Printed grey, no two arms share a marker or dashes; bars differ by hatch, or by far in lightness."""
    looks = [*LOOKS.values(), UNKNOWN]
    assert len({style.marker for style in looks}) == len({style.line for style in looks if style.line != "-"}) + 2 == 7
    plain = [lightness(style.color) for style in looks if not style.hatch]
    assert len({style.hatch for style in looks if style.hatch}) == len(looks) - len(plain)
    assert max(plain) > 2 * min(plain)


def test_an_arm_that_nobody_knows_is_drawn_all_the_same() -> None:
    """The experiment's arms have looks of their own; a new strategy is grey until it has one."""
    assert UNKNOWN not in [look(arm) for arm in ARMS]
    assert look("new") is UNKNOWN


def lightness(color: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
