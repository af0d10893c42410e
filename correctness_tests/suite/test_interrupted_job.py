"""A job that failed or was interrupted is over: no other check measures again, nothing is written at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from correctness_tests.suite.judging import GPUS
from correctness_tests.suite.synthetic import Job as Night
from correctness_tests.suite.synthetic import accepted
from fixtures.errors import UsageError
from fixtures.experiment import Plan
from fixtures.gate.proposals import Asked
from fixtures.measurements import Settings
from fixtures.options import Options
from fixtures.report.results import load_results, save_results
from fixtures.report.terminal import JobSummary
from fixtures.session.job import Job, JobFailedError

pytestmark = pytest.mark.cpu

PAIR = ("fsdp2", "ddp")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """A job that would update its baseline."""
    return Options(
        rehearse=True,
        world_size=2,
        workload="mlp",
        launches=3,
        max_launches=3,
        settings=Settings(),
        baselines=tmp_path / "baselines",
        results=tmp_path / "results",
        from_results=(),
        platform_key=None,
        update=Asked("never", allow_dirty=True),
        dry_run=False,
        rank_patch=None,
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UsageError("no space left"), RuntimeError("a bug")])
def test_job_is_not_measured_again(
    options: Options, monkeypatch: pytest.MonkeyPatch, error: BaseException, tmp_path: Path
) -> None:
    """The check that meets the error raises it; the next one fails with it; the summary measures and writes nothing."""
    calls: list[object] = []

    def measure(*args: object, **kwargs: object) -> None:
        calls.append(args)
        raise error

    monkeypatch.setattr("fixtures.experiment.run", measure)
    job = Job(options, arms=PAIR[::-1], selected=frozenset({(PAIR, "peak")}), say=lambda line: None)
    with pytest.raises(type(error)):
        job.check(PAIR, "peak")
    with pytest.raises(JobFailedError, match="the job failed in an earlier check"):
        job.check(PAIR, "peak")
    assert JobSummary.of(job) is None
    assert len(calls) == 1
    assert list(tmp_path.iterdir()) == []


def test_failed_save_keeps_the_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full after some of the new files, the earlier run's launches are all there, and only they."""
    before = Night(platform=GPUS).measurements()
    save_results(tmp_path, before)
    written: list[Path] = []

    def full_disk(path: Path, text: str) -> None:
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        path.write_text(text)
        written.append(path)

    monkeypatch.setattr("fixtures.report.results.write_atomic", full_disk)
    with pytest.raises(UsageError, match="No space left on device"):
        save_results(tmp_path, Night(platform=GPUS, launches=3, seed=1).measurements())
    assert load_results(tmp_path) == before


def test_unsaved_measurements_are_judged_all_the_same(
    options: Options, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A results folder that can't be written fails the session at its end, and not the verdicts."""
    from fixtures.experiment import Outcome
    from fixtures.gate.baselines import render

    night = Night(platform=accepted().platform)
    monkeypatch.setattr("fixtures.experiment.run", lambda *args, **kwargs: Outcome(night.measurements()))
    (tmp_path / "results").write_text("a file, where a folder should be")
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "cpu-gloo-4.json").write_text(render(accepted()))
    made = Job(
        replace(options, update=None, world_size=4), PAIR[::-1], frozenset({(PAIR, "peak")}), say=lambda line: None
    )
    made.check(PAIR, "peak")
    assert any(complaint.startswith("measurements not kept: ") for complaint in made.complaints())


FAILED = "rank 1 of 2 raised RuntimeError: no space left for the batches"


def test_an_update_of_nothing_but_failures_says_what_failed(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no pair could be compared a first update is refused, and each check has the ranks' own message."""
    from fixtures.experiment import Outcome

    plans: list[Plan] = []

    def fail(plan: Plan, *args: object) -> Outcome:
        plans.append(plan)
        return Outcome([], {"ddp": FAILED, "fsdp2": FAILED})

    monkeypatch.setattr("fixtures.experiment.run", fail)
    made = Job(options, PAIR[::-1], frozenset({(PAIR, "peak")}), say=lambda line: None)
    with pytest.raises(JobFailedError, match=f"fsdp2 on cpu-gloo-2: a launch failed.\n{FAILED}"):
        made.check(PAIR, "peak")
    assert made.complaints() == ["no baseline was proposed: of no pair has each arm a launch"]
    summary = JobSummary.of(made)
    assert summary is not None
    assert "ddp: a launch failed, so its checks failed" in summary.notes
    assert not options.baselines.exists()
    assert plans[0].command.startswith("pytest ")
    assert " --rehearse --world-size 2 --workload mlp" in plans[0].command


BAD = {
    "ends_the_process": "exited with status 0 without finishing",
    "exits": "raised SystemExit",
    "has_a_lost_small_size": "unknown workload 'nonesuch'",
}


@pytest.mark.parametrize(("name", "message"), BAD.items(), ids=BAD)
def test_workload_that_ends_its_process_is_a_usage_error(options: Options, name: str, message: str) -> None:
    """A user's code runs on a rank from the start: what it does there is one error, named, before any launch."""
    reference = f"correctness_tests.suite.bad_workloads:{name}"
    made = Job(replace(options, workload=reference), PAIR, frozenset(), say=lambda line: None)
    with pytest.raises(UsageError) as error:
        made.prepare()
    assert message in str(error.value)
    assert "bad_workloads" in str(error.value) or "nonesuch" in str(error.value)
