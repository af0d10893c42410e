"""The page's timeline is a step of the run's own arms: recorded with the job, kept beside it, drawn from there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import current_thread

import pytest

from correctness_tests.suite.pages import NIGHT, step
from fixtures.errors import UsageError
from fixtures.ledger import GPT2_LARGE_PSI
from fixtures.measurements import Measurement
from fixtures.report import gallery
from fixtures.report.gallery import pictures
from fixtures.report.page_accounts import experiment_accounts
from fixtures.report.pages import Run
from fixtures.report.pictures.style import Picture
from fixtures.report.steps import NAME, load_steps, save_steps
from fixtures.session.drawn_steps import drawing, drawn_steps

pytestmark = pytest.mark.cpu


def test_each_arm_has_the_step_that_it_takes() -> None:
    """Recorded on rank 0 of 4: FSDP2 gathers its blocks twice, without reshard once; an unknown arm is a line."""
    steps, missing = drawn_steps("mlp", ["fsdp2", "fsdp2-noreshard"], 4)
    assert missing == []
    gathers = {s.strategy: sum(span.kind == "all-gather" for span in s.spans) for s in steps}
    assert gathers == {"fsdp2": 8, "fsdp2-noreshard": 4}
    assert {s.source for s in steps} == {"order"}


def test_pictures_drawn_meanwhile_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn in a thread while something else goes on, they are what the page shows of its launches."""
    measured, calls = NIGHT.measurements(), []

    def of_launches(measurements: Sequence[Measurement]) -> list[Picture]:
        calls.append(current_thread())
        return [Picture("memory", "Memory", f"of {len(measurements)} launches", "<svg/>")]

    monkeypatch.setattr(gallery, "of_launches", of_launches)
    with drawing(measured) as drawn:
        pass
    assert pictures(Run(measured, []), drawn=drawn) == drawn == of_launches(measured)
    assert calls[0] is not current_thread()
    assert len(calls) == 2


def test_pictures_that_fail_meanwhile_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be drawn beforehand is left to the page, which says so; without launches there is nothing to draw."""
    monkeypatch.setattr(gallery, "of_launches", lambda measurements: 1 / 0)
    with drawing(NIGHT.measurements()) as drawn:
        pass
    with drawing([]) as none:
        pass
    assert (drawn, none) == ([], [])


def test_what_cannot_be_recorded_is_a_line() -> None:
    """A workload that no rank can build costs the picture, and nothing else."""
    steps, missing = drawn_steps("no.such:workload", ["fsdp2"], 2)
    assert steps == []
    assert len(missing) == 1
    assert missing[0].startswith("no timeline: ")


def test_steps_are_read_back(tmp_path: Path) -> None:
    """What a session kept is what a page draws later."""
    steps = [step("ddp", 2), step("fsdp2", 2)]
    save_steps(tmp_path, steps)
    assert load_steps(tmp_path) == steps
    assert load_steps(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("text", ["{", '[{"strategy": "ddp"}]', '{"steps": []}'])
def test_a_broken_file_is_one_error(tmp_path: Path, text: str) -> None:
    """The file is named, with the remedy."""
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_text(text)
    with pytest.raises(UsageError, match=r"timelines\.json.*Remove it"):
        load_steps(tmp_path)


def test_the_experiments_accounts_are_never_filled_with_another_models_figures() -> None:
    """A small model's page has the published figures beside the arithmetic; its own are no measurement of them."""
    accounts = experiment_accounts(NIGHT.measurements())
    assert [a.name for a in accounts][:2] == ["the experiment's resident, ddp", "the experiment's resident, fsdp2"]
    assert all(a.measured is None for a in accounts)
    assert NIGHT.workload.num_params != GPT2_LARGE_PSI
