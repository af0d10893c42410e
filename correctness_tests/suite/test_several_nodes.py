"""Launches of several nodes: each rank wrote its own part; judged anywhere, INVALID where a rank or node is missing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from correctness_tests.suite import node_jobs
from correctness_tests.suite.judging import NIGHT, ROOT, Judge, judge
from correctness_tests.suite.two_nodes import MODES, ROUNDS
from fixtures.errors import UsageError
from fixtures.experiment import balanced_order
from fixtures.gate.night import incidents
from fixtures.measurements import Measurement, Stack
from fixtures.ranks.pool import RankPool
from fixtures.report.parts import next_place, part_path
from fixtures.report.results import load_results, save_measurement

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

JOB_SCRIPT = ROOT / "examples" / "slurm" / "nightly.sbatch"


def write_parts(folder: Path, measurements: list[Measurement]) -> list[Measurement]:
    """Write each rank's part of each launch, as the ranks would; returns the launches."""
    for m in measurements:
        for rank in m.ranks:
            path = part_path(folder, m.strategy, m.order, rank.rank)
            save_measurement(path, m.model_copy(update={"ranks": [rank]}))
    return measurements


def test_parts_load_as_whole_launches(tmp_path: Path) -> None:
    """Joined, the parts are the very launches that were written, in the order in which they ran."""
    written = write_parts(tmp_path, NIGHT.measurements())
    assert load_results(tmp_path) == written


def test_each_rank_writes_its_part(ranks: Callable[[int], RankPool], tmp_path: Path) -> None:
    """Ranks that measured add one launch to the folder, a file each; rank 0 said which launch it is."""
    (tmp_path / "launch-0004-ddp").mkdir()
    ranks(2).run(node_jobs.measure_and_write, str(tmp_path))
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*"))
    assert found == ["launch-0005-ddp/rank-00000.json", "launch-0005-ddp/rank-00001.json"]
    (loaded,) = load_results(tmp_path)
    assert ([r.rank for r in loaded.ranks], loaded.launch, loaded.order) == ([0, 1], 1, 5)
    assert incidents(loaded.telemetry) == [  # what each rank saw of its own device, while it measured
        "rank 1's Double was throttled: power brake",
        "rank 1's Double was shared with process 666 (miner)",
    ]


def test_good_night_of_parts_passes(judge: Judge) -> None:
    """A whole night of parts is judged as one that a single process wrote."""
    write_parts(judge.results, replace(NIGHT, seed=1).measurements())
    result = judge.judge()
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert sum(line.endswith("PASS") for line in result.outlines) == 6


@pytest.mark.parametrize(
    ("lost", "left"),
    [((7,), "[0, 1, 2, 3, 4, 5, 6]"), ((4, 5, 6, 7), "[0, 1, 2, 3]"), ((0,), "[1, 2, 3, 4, 5, 6, 7]")],
    ids=["a rank", "a node", "the first rank"],
)
def test_missing_rank_or_node_is_invalid(judge: Judge, lost: tuple[int, ...], left: str) -> None:
    """One launch lacks a rank, or half of them: INVALID, with the ranks that are there."""
    write_parts(judge.results, replace(NIGHT, seed=1).measurements())
    for rank in lost:
        part_path(judge.results, "ddp", 3, rank).unlink(missing_ok=True)
        part_path(judge.results, "fsdp2", 4, rank).unlink()
    result = judge.judge()
    text = " ".join(result.stdout.str().split())
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INVALID gpt2-rehearsal/fsdp2:ddp/peak" in text
    assert f"launch 1 of fsdp2 has samples of ranks {left}, not of all 8" in text


def test_missing_launch_is_invalid(judge: Judge) -> None:
    """A launch that no rank wrote leaves its partner alone."""
    write_parts(judge.results, replace(NIGHT, seed=1).measurements())
    shutil.rmtree(part_path(judge.results, "fsdp2", 4, 0).parent)
    assert "launch 1 of ddp has no partner" in " ".join(judge.judge().stdout.str().split())


def test_nodes_must_run_the_same(tmp_path: Path) -> None:
    """A node with another torch is named, with the file, before anything is judged."""
    first = write_parts(tmp_path, NIGHT.measurements()[:1])[0]
    other = first.provenance.model_copy(update={"stack": Stack(torch="2.14.1", python="3.11.9")})
    path = part_path(tmp_path, "ddp", 0, 5)
    save_measurement(path, first.model_copy(update={"ranks": [first.ranks[5]], "provenance": other}))
    with pytest.raises(UsageError) as caught:
        load_results(tmp_path)
    assert str(caught.value).startswith(f"{path}: not of the launch that rank-00000.json is of: another stack.")


def test_next_launch_comes_after_what_is_there(tmp_path: Path) -> None:
    """Its number counts this arm's launches, its order all of them; other folders don't count."""
    assert next_place(tmp_path, "ddp") == (0, 0)
    for name in ("launch-0000-ddp", "launch-0001-fsdp2-noreshard", "launch-0002-fsdp2", "other"):
        (tmp_path / name).mkdir()
    assert [next_place(tmp_path, arm) for arm in ("ddp", "fsdp2", "fsdp2-noreshard")] == [(1, 3)] * 3


def test_linked_folder_is_left_alone(tmp_path: Path) -> None:
    """A link that leads out of the folder of results is not followed."""
    write_parts(tmp_path / "elsewhere", NIGHT.measurements()[:1])
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "launch-0000-ddp").symlink_to(tmp_path / "elsewhere" / "launch-0000-ddp")
    with pytest.raises(UsageError, match="holds no launch"):
        load_results(tmp_path / "night")


def test_job_script_is_sound() -> None:
    """Bash reads it, and shellcheck finds nothing where it is installed."""
    subprocess.run(["bash", "-n", str(JOB_SCRIPT)], check=True)
    if (shellcheck := shutil.which("shellcheck")) is not None:
        done = subprocess.run([shellcheck, "-s", "bash", str(JOB_SCRIPT)], capture_output=True, text=True, check=False)
        assert done.stdout == ""


def test_job_script_launches_in_balanced_order(tmp_path: Path) -> None:
    """With srun and torchrun replaced, its launches are those of a job of 6 rounds: A B C, C B A, C B A, A B C, ..."""
    for name, line in {
        "srun": 'echo "$@" >> "$LOG"',
        "scontrol": "echo node-a; seq -f node-%g 20000",  # more than a pipe holds
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "LOG": str(tmp_path / "log"),
        "SLURM_NNODES": "2",
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_NODELIST": "node-[a-b]",
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }
    subprocess.run(["bash", str(JOB_SCRIPT)], env=environment, check=True, timeout=60)
    lines = (tmp_path / "log").read_text().splitlines()
    arms = {"--mode ddp": "ddp", "--mode fsdp2": "fsdp2", "--mode fsdp2 --no-reshard": "fsdp2-noreshard"}
    launched = [arms[line[line.index("--mode") :].partition(" --out")[0]] for line in lines]
    assert launched == [arm for arm, _ in balanced_order(list(arms.values()), 6)]
    assert all("--nnodes=2" in line and "--rdzv-endpoint=node-a:" in line for line in lines)
    assert all(line.endswith("--out results/17") for line in lines)


def test_two_nodes_command_covers_what_a_verdict_needs() -> None:
    """The command that launches two agents does so three times an arm, for a pair that is compared."""
    assert (MODES, ROUNDS) == (("ddp", "fsdp2"), 3)
