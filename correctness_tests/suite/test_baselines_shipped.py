"""The baselines that ship are valid, in the stored form, and say only what is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.gate.baselines import find_baseline, load_baseline, platforms, render, schema_text

pytestmark = pytest.mark.cpu

FOLDER = Path(__file__).resolve().parents[2] / "baselines"
PUBLISHED = "cuda-nccl-8--nvidia-rtx-pro-6000-blackwell"


def test_shipped_files_are_in_the_stored_form() -> None:
    """Each file loads, and rendering it gives the same bytes: order, digits, layout."""
    keys = platforms(FOLDER)
    assert PUBLISHED in keys
    for key in keys:
        path = FOLDER / f"{key}.json"
        assert path.read_text() == render(load_baseline(path)), f"{path} was edited out of its stored form"


def test_schema_is_up_to_date() -> None:
    """The JSON Schema beside them is the models'."""
    assert (FOLDER / "baseline.schema.json").read_text() == schema_text(), (
        "run: python -m fixtures.gate.baselines > baselines/baseline.schema.json"
    )


def test_published_figures_are_the_experiments() -> None:
    """The published file holds the three ratios that can be formed from the published figures, and nothing else."""
    file = load_baseline(FOLDER / f"{PUBLISHED}.json")
    figures = {k: [e.numerator.value, e.denominator.value, e.ratio] for k, e in file.entries.items()}
    expected: dict[str, list[object]] = {
        "gpt2-large/fsdp2:ddp/resident": [1.27, 11.76, pytest.approx(1.27 / 11.76, rel=1e-5)],
        "gpt2-large/fsdp2:ddp/step": [338.0, 477.0, pytest.approx(338 / 477, rel=1e-5)],
        "gpt2-large/fsdp2-noreshard:fsdp2/step": [273.3, 338.0, pytest.approx((338 - 64.7) / 338, rel=1e-5)],
    }
    assert figures == expected


def test_published_file_invents_nothing() -> None:
    """It is marked published; interval, pairs, date, commit, Python and driver were not published and are absent."""
    text = (FOLDER / f"{PUBLISHED}.json").read_text()
    entries = json.loads(text)["entries"].values()
    assert {e["provenance"]["source"] for e in entries} == {"published"}
    assert not any(
        f'"{name}":' in text for name in ("low", "high", "pairs", "date", "commit", "dirty", "python", "driver")
    )


@pytest.mark.parametrize("edition", ["", "-server-edition", "-workstation-edition", "-max-q-workstation-edition"])
def test_published_file_speaks_for_every_edition(edition: str) -> None:
    """torch's names of these cards differ by edition, which was not published: each finds the file."""
    found = find_baseline(FOLDER, PUBLISHED + edition)
    assert found is not None
    assert found.platform.key == PUBLISHED


@pytest.mark.parametrize(
    "key", [f"{PUBLISHED}x", "cuda-nccl-4--nvidia-rtx-pro-6000-blackwell", "cuda-nccl-8--nvidia-h200"]
)
def test_published_file_speaks_for_no_other_machine(key: str) -> None:
    """Another card or another world size has no baseline."""
    assert find_baseline(FOLDER, key) is None
