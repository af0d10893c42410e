"""The pictures of docs/pictures are what their command draws now."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from perf_tests.pictures import FOLDER, main

pytestmark = pytest.mark.cpu


def test_pictures_are_not_stale(tmp_path: Path) -> None:
    """Each says in words what the one drawn now says, figures included, and is small; bytes depend on matplotlib's."""
    main(["--out", str(tmp_path)])
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == ["geometry.svg", "memory.svg", "scale.svg"]
    for name in drawn:
        made, shown = (
            [element.text for element in ElementTree.parse(folder / name).getroot()[:2]]
            for folder in (tmp_path, FOLDER)
        )
        assert made == shown, f"docs/pictures/{name} is stale, run python -m perf_tests.pictures: {made}"
        assert (FOLDER / name).stat().st_size < 200_000


def said(path: Path) -> list[str | None]:
    """Title and description of a picture."""
    return [element.text for element in ElementTree.parse(path).getroot()[:2]]
