"""Property: a session that is interrupted keeps the launches that had ended, which nothing takes for a whole night."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from correctness_tests.suite.judging import NIGHT, ROOT, Judge, judge
from correctness_tests.suite.synthetic import Job
from fixtures.errors import UsageError
from fixtures.gate.comparisons import compare
from fixtures.measurements import Measurement
from fixtures.report.results import launch_name, load_results, save_results
from fixtures.report.stored import stored_run
from fixtures.report.unfinished import Unfinished
from fixtures.session.kept import Kept
from fixtures.session.speaking import terminable

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

PLANNED = 6
HANGING = """
import time
from pathlib import Path
from correctness_tests.suite.synthetic import Job
from fixtures import experiment
from fixtures.session import job
NIGHT = {(m.strategy, m.launch): m for m in Job(launches=3).measurements()}
def launch(plan, strategy, number, order, watch):
    if order == 5:
        Path("hangs").touch()
        time.sleep(300)
    return NIGHT[strategy, number].model_copy(update={"order": order})
experiment._launch = launch
experiment.lock_folder = lambda: Path(".")
job.tried_reference = lambda *of: "gpt2-rehearsal"
"""
"""A conftest of sessions whose launches cost nothing; the last one of six never ends."""
PROFILED = (
    HANGING.replace("order == 5", "False")
    + """
from fixtures.ranks import pool
class Hanging:
    def __init__(self, *of, **options):
        Path("hangs").touch()
        time.sleep(300)
pool.RankPool = Hanging
"""
)
"""The same, but it is the first launch under the profiler, after all six, that never ends."""


def interrupted(judge: Judge, number: signal.Signals, hanging: str = HANGING, *more: str) -> tuple[int, str]:
    """A session in a process of its own that gets this signal within the launch that hangs: exit status and output."""
    judge.pytester.makeconftest(hanging)
    given = "-p fixtures.plugin -m gpu --rehearse --launches 3 --no-bandwidth --results out --history off"
    command = [sys.executable, "-m", "pytest", *given.split(), "-k", "fsdp2:ddp and resident", *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    folder, pipe = judge.pytester.path, subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=subprocess.STDOUT) as session:
        try:
            while not (folder / "hangs").exists():
                assert session.poll() is None, session.communicate()[0].decode()
                time.sleep(0.05)
            session.send_signal(number)
            said = session.communicate(timeout=120)[0].decode()
        finally:
            session.kill()
    return session.returncode, said


def kept(folder: Path, launches: int = 5) -> list[Measurement]:
    """Keep that many launches of a quiet night of fsdp2 and ddp, of six, as a session that does not end does."""
    night = [m for m in replace(NIGHT, launches=3).measurements() if m.strategy != "fsdp2-noreshard"]
    keeper = Unfinished(folder)
    for m in night[:launches]:
        keeper.keep(m, PLANNED)
    return night


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_launches_that_ended_are_kept(judge: Judge, number: signal.Signals) -> None:
    """Ctrl-C says where they lie and how they are judged, SIGKILL can't; both leave the five."""
    status, said = interrupted(judge, number)
    assert status == (-signal.SIGKILL if number is signal.SIGKILL else pytest.ExitCode.INTERRUPTED), said
    told = "5 of 6 launches kept in out/unfinished; judge them with:\n  pytest " in said
    assert told == (number is not signal.SIGKILL), said
    stored = load_results(judge.pytester.path / "out" / "unfinished")
    assert [m.order for m in stored] == [0, 1, 2, 3, 4]
    assert {m.provenance.planned for m in stored} == {PLANNED}
    assert sorted(path.name for path in (judge.pytester.path / "out").iterdir()) == ["unfinished"]


def test_a_night_that_ended_is_told_of_where_its_evidence_is_interrupted(judge: Judge) -> None:
    """All launches that are judged have ended, one under the profiler has not: SIGTERM says where the night lies."""
    status, said = interrupted(judge, signal.SIGTERM, PROFILED, "--profile", "on")
    assert status == pytest.ExitCode.INTERRUPTED, said
    assert "all launches kept in out; judge them with:\n  pytest " in said
    assert {m.provenance.planned for m in load_results(judge.pytester.path / "out")} == {None}


def test_a_baseline_that_was_written_is_told_of_too(tmp_path: Path) -> None:
    """An update is interrupted between the baseline and what goes beside it; a session that is judged says no more."""
    keeper = Kept()
    keeper.keep_measurements(tmp_path / "out", Job().measurements())
    told = keeper.until_now(["pytest"], judged=False, written=Path("baselines/a.json"))
    assert told[-1] == "baseline written: baselines/a.json"
    assert keeper.until_now(["pytest"], judged=True, written=Path("baselines/a.json")) == []


def test_a_session_can_be_terminated() -> None:
    """SIGTERM while launches run is a Ctrl-C, and kills as ever before and after."""

    def launch() -> None:
        with terminable():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        launch()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_command_that_is_told_judges_them(judge: Judge) -> None:
    """It is the session's own, selection and all, with the folder in place of what launches."""
    kept(Path("an out"))
    command = ("pytest", "perf_tests", "-m", "gpu", "-k 'fsdp2:ddp and resident'", "--rehearse", "--launches 3")
    keeper = Unfinished(Path("an out"), planned=6, kept=5)
    words = shlex.split(" ".join(keeper.lines(command)[1:]).replace("\\ ", ""))
    assert words[2:] == ["-m", "gpu", "-k", "fsdp2:ddp and resident", "--from-results", "an out/unfinished"]
    judged = judge.pytester.runpytest_inprocess("-p", "fixtures.plugin", "--baselines", "accepted", *words[2:])
    assert judged.parseoutcomes()["failed"] == 1


def test_few_launches_are_inconclusive(judge: Judge) -> None:
    """Two whole rounds of three: the launch without a partner counts for nothing, and two pairs are too few to tell."""
    kept(judge.results)
    result = judge.pytester.runpytest_inprocess(
        *("-p", "fixtures.plugin", "-m", "gpu", "--from-results", "stored/unfinished", "--baselines", "accepted"),
        *("-k", "fsdp2:ddp"),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["INCONCLUSIVE gpt2-rehearsal/fsdp2:ddp/resident on *", "*2 pairs*"])
    assert "INVALID" not in result.stdout.str()
    assert "to accept what failed" not in result.stdout.str()
    assert "The session that measured it did not end: no baseline may hold it." in result.stdout.str()


def test_enough_launches_fail_the_session_all_the_same(judge: Judge) -> None:
    """All six of six had ended: every verdict is a PASS, and the session fails, since nothing says how it would end."""
    kept(judge.results, launches=6)
    result = judge.pytester.runpytest_inprocess(
        *("-p", "fixtures.plugin", "-m", "gpu", "--from-results", "stored/unfinished", "--baselines", "accepted"),
        *("-k", "fsdp2:ddp", "--history", "nights.sqlite"),
    )
    assert (result.ret, "failed" in result.parseoutcomes()) == (pytest.ExitCode.TESTS_FAILED, False)
    result.stdout.fnmatch_lines(["ERROR: unfinished: 6 of 6 launches of a session that did not end: *"])
    assert not (judge.pytester.path / "nights.sqlite").exists()
    assert stored_run([judge.results / "unfinished"], judge.baselines).complaints[0].startswith("unfinished: 6 of 6")


def test_no_baseline_is_made_of_them(judge: Judge) -> None:
    """An update is one error before anything is judged, and the file stays as it was."""
    kept(judge.results, launches=6)
    before = {path: path.read_bytes() for path in judge.baselines.iterdir()}
    result = judge.pytester.runpytest_inprocess(
        *("-p", "fixtures.plugin", "-m", "gpu", "--from-results", "stored/unfinished", "--baselines", "accepted"),
        *("--update-baselines", "--reason", "as far as it got"),
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: unfinished: 6 of 6 launches of a session that did not end: no baseline is *"])
    assert {path: path.read_bytes() for path in judge.baselines.iterdir()} == before


def test_a_folder_with_nothing_else_says_where_they_are(tmp_path: Path) -> None:
    """The folder of the results holds no run: the error names the one that can be judged."""
    kept(tmp_path)
    with pytest.raises(
        UsageError, match=r"no launch .*unfinished holds 5 launches of a session that did not end: --fr"
    ):
        load_results(tmp_path)


def test_an_earlier_run_stays_whole(judge: Judge) -> None:
    """A night that is interrupted in another's folder takes nothing from it; judging that one says what lies there."""
    save_results(judge.results, replace(NIGHT, seed=1).measurements())
    kept(judge.results)
    result = judge.judge()
    assert result.ret == pytest.ExitCode.OK
    said = "stored/unfinished holds 5 launches of a session that did not end: not judged here"
    assert said in " ".join(result.stdout.str().split())


def test_two_interrupted_jobs_are_not_mixed(tmp_path: Path) -> None:
    """The first launch that a job keeps takes the place of all that another had kept there, and of nothing else."""
    kept(tmp_path)
    (tmp_path / "unfinished" / "notes.txt").write_text("mine")
    kept(tmp_path, launches=1)
    assert len(load_results(tmp_path / "unfinished")) == 1
    assert (tmp_path / "unfinished" / "notes.txt").read_text() == "mine"


def test_a_job_that_ends_leaves_none_apart(tmp_path: Path) -> None:
    """Its launches lie in the folder itself, without the mark, and those of an earlier interrupted job are gone."""
    kept(tmp_path, launches=3)
    night, keeper = Job().measurements(), Kept()
    with keeper.as_they_end():
        for m in night:
            keeper.keep_launch(tmp_path, m, len(night))
    assert len(load_results(tmp_path / "unfinished")) == len(night)
    keeper.keep_measurements(tmp_path, night)
    assert load_results(tmp_path) == night
    assert not (tmp_path / "unfinished").exists()
    assert keeper.unfinished is None


def test_a_plan_that_was_no_good_leaves_nothing(tmp_path: Path) -> None:
    """A usage error after the first launches (no time for what a verdict needs): as if they had not been."""
    keeper = Kept()

    def launch() -> None:
        with keeper.as_they_end():
            keeper.keep_launch(tmp_path / "out", Job().measurements()[0], 18)
            raise UsageError("--max-minutes 1 is too short")

    with pytest.raises(UsageError, match="too short"):
        launch()
    assert list(tmp_path.iterdir()) == []


def test_what_can_not_be_kept_is_said_when_it_is_lost(tmp_path: Path) -> None:
    """A file where the folder should be: the launches go on, and an interruption says that they are lost, and why."""
    (tmp_path / "out").write_text("")
    keeper = Kept()
    keeper.keep_launch(tmp_path / "out", Job().measurements()[0], 18)
    assert keeper.unfinished is not None
    said = " ".join(line.strip() for line in keeper.unfinished.lines(["pytest"]))
    assert said.startswith("launches of this job are lost: ")
    assert "can't be written: Not a directory" in said


def test_what_was_kept_before_is_judged_all_the_same(tmp_path: Path) -> None:
    """The disk fills up after the first launch: the one is told of with its command, and that others are lost."""
    keeper, (first, second, *_) = Unfinished(tmp_path), Job().measurements()
    keeper.keep(first, PLANNED)
    (keeper.folder / launch_name(second.order, second.strategy)).mkdir()
    keeper.keep(second, PLANNED)
    said = keeper.lines(["pytest"])
    assert said[0] == f"1 of 6 launches kept in {keeper.folder}; judge them with:"
    assert any(line.startswith("further launches of this job are lost: ") for line in said[1:])


def test_rounds_of_a_night_that_ended_are_not_mended() -> None:
    """A launch that is missing from a whole night makes it INVALID, as ever."""
    whole = replace(NIGHT, launches=4).measurements()[:-1]
    reasons = {c.judgement.reason for c in compare(whole, None, gate_times=True)}
    assert any("has no partner" in reason for reason in reasons)
