"""A stored launch is judged only if it carries what its figures rest on: each control, and every step it speaks of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from correctness_tests.suite.synthetic import CONTROLS, Job
from correctness_tests.suite.test_meter_controls import pass_controls
from fixtures.errors import UsageError
from fixtures.gate.pairing import RANK0_ONLY
from fixtures.ranks import RankPool
from fixtures.report.results import CONTROLS as WANTED
from fixtures.report.results import load_results, save_measurement

pytestmark = pytest.mark.cpu


def complaint(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> str:
    """What loading a good launch says after an edit of its tree; it must be refused."""
    path = folder / "launch.json"
    save_measurement(path, Job(launches=1).measurements()[0])
    load_results(folder)
    tree = json.loads(path.read_text())
    edit(tree)
    path.write_text(json.dumps(tree))
    with pytest.raises(UsageError) as caught:
        load_results(folder)
    return str(caught.value)


@pytest.mark.parametrize("meter", CONTROLS)
def test_launch_without_a_control_is_refused(tmp_path: Path, meter: str) -> None:
    """A launch that has lost what a meter read of a known thing says which, and that its figures prove nothing."""
    said = complaint(tmp_path, lambda tree: tree["provenance"]["controls"].pop(meter))
    assert f"launch.json: provenance > controls: says nothing of {meter}: " in said


def test_launch_with_empty_controls_is_refused(tmp_path: Path) -> None:
    """Blank controls are none."""
    edit: Callable[[dict[str, Any]], Any] = lambda tree: tree["provenance"]["controls"].update(memory=" ")  # noqa: E731
    assert "says nothing of memory" in complaint(tmp_path, edit)


def test_launch_is_no_row_of_a_table(tmp_path: Path) -> None:
    """The mark that excuses a CSV's rows from having every rank's samples excuses no launch."""
    said = complaint(tmp_path, lambda tree: tree["provenance"]["controls"].update({RANK0_ONLY: "a CSV"}))
    assert "belongs to a row of a CSV" in said


@pytest.mark.parametrize(("field", "steps"), [("step_ms", 4), ("resident_by_step", 3)])
def test_launch_with_fewer_steps_than_it_says_is_refused(tmp_path: Path, field: str, steps: int) -> None:
    """Steps that were taken out of every rank's samples are missed: the settings say how many there were."""

    def drop(tree: dict[str, Any]) -> None:
        for rank in tree["ranks"]:
            rank[field].pop()

    said = complaint(tmp_path, drop)
    assert f"ranks > {field}: [{steps - 1}] steps, where the settings say {steps}" in said


def test_what_a_launch_reads_is_what_it_must_carry(ranks: Callable[[int], RankPool]) -> None:
    """The controls that every launch reads before it measures are those that a stored one must carry."""
    assert [set(read) for read in ranks(2).run(pass_controls)] == [set(WANTED)] * 2
