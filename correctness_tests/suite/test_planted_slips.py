"""A slip planted on every rank turns a whole job red, and the message names the arm that moved.

The job is the nightly's own, on 2 gloo ranks: real launches, real meters, a baseline that the clean job wrote.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.errors import UsageError
from fixtures.gate.proposals import Asked
from fixtures.measurements import Settings
from fixtures.options import Options
from fixtures.session.job import Job, JobFailedError
from perf_tests import test_collectives, test_no_growth

pytestmark = pytest.mark.cpu

PAIR = ("fsdp2", "ddp")
KNOB = ("fsdp2-noreshard", "fsdp2")
CHECKS = frozenset({(PAIR, "resident"), (PAIR, "peak")})
FAULTS = "correctness_tests.suite.faults"


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """The options of a job whose baseline a clean run has just written."""
    folder = tmp_path_factory.mktemp("clean")
    options = Options(
        rehearse=True,
        world_size=2,
        workload="mlp",
        launches=3,
        settings=Settings(warmup_steps=1, timed_steps=1, inspected_steps=2),
        baselines=folder / "baselines",
        results=folder / "results",
        max_launches=3,
        from_results=(),
        platform_key=None,
        update=None,
        dry_run=False,
        rank_patch=None,
    )
    job(replace(options, update=Asked("the clean job", allow_dirty=True))).check(PAIR, "peak")
    return options


def job(options: Options, pair: tuple[str, str] = PAIR) -> Job:
    """The job of the two arms, silent."""
    made = Job(options, arms=pair[::-1], selected=CHECKS, say=lambda line: None)
    made.prepare()
    return made


def told(error: BaseException) -> str:
    """A message on one line."""
    return " ".join(str(error).split())


@pytest.fixture
def planted(clean: Options, tmp_path: Path) -> Options:
    """The clean job's options, with a results folder of this test's own."""
    return replace(clean, results=tmp_path)


def test_clean_job_passes_again(planted: Options) -> None:
    """The control: a second clean job reads the same bytes, so that both checks pass with no move."""
    again = job(planted)
    for pair, metric in CHECKS:
        again.check(pair, metric)
    moves = [comparison.judgement.move for comparison in again.comparisons if comparison.gated]
    assert moves == pytest.approx([0.0, 0.0], abs=1e-5)  # a baseline keeps 6 significant digits
    assert (again.evidence.notes, list(planted.results.glob("evidence/*"))) == ([], [])  # type: ignore[union-attr]


def test_kept_unsharded_parameters_are_fsdp2s_slip(planted: Options) -> None:
    """FSDP2 that never frees gathered parameters is REGRESSED at rest, and fsdp2 is the arm that moved."""
    slipped = job(replace(planted, rank_patch=f"{FAULTS}.kept_unsharded_parameters:apply"))
    with pytest.raises(
        JobFailedError, match=r"REGRESSED .*/fsdp2:ddp/resident(.|\n)*ddp unchanged.*, fsdp2 \+\d\d"
    ) as e:
        slipped.check(PAIR, "resident")
    assert "fsdp2's resident grew by 0.252 MiB: gathered units of blocks.0, blocks.1, blocks.2, blocks.3 " in told(
        e.value
    )
    assert [path.name for path in slipped.evidence.files] == ["fsdp2.held.json", "fsdp2.trace.json.gz"]


def test_ddp_without_bucket_views_is_ddps_slip(planted: Options) -> None:
    """DDP that keeps gradients beside its buckets makes the ratio better: IMPROVED, and ddp is the arm that moved."""
    slipped = job(replace(planted, rank_patch=f"{FAULTS}.ddp_without_bucket_views:apply"))
    with pytest.raises(JobFailedError, match=r"IMPROVED .*/fsdp2:ddp/peak(.|\n)*ddp \+\d\d.*, fsdp2 unchanged") as e:
        slipped.check(PAIR, "peak")
    assert re.search(r"evidence ddp's peak grew by .*: ToCopyBackward0 \(aten\._to_copy\.default\) \+", told(e.value))


def test_ignored_reshard_knob_is_seen_in_the_gathers(planted: Options) -> None:
    """A knob without effect moves a small model's peak by less than the tolerance; the number of gathers tells."""
    slipped = job(replace(planted, rank_patch=f"{FAULTS}.ignored_reshard_knob:apply"), KNOB)
    with pytest.raises(AssertionError, match=r"8 all-gathers a step without reshard and 8 with it"):
        test_collectives.test_no_reshard_gathers_less(slipped, KNOB)
    with pytest.raises(AssertionError, match=r"measured 8 all-gather .*\n +ledger   4 all-gather"):
        test_collectives.test_collectives_are_the_ledgers(slipped, KNOB[0])
    test_collectives.test_collectives_are_the_ledgers(slipped, KNOB[1])


def test_leak_in_every_step_is_fsdp2s(planted: Options) -> None:
    """4 KiB left behind by each step of one arm, too little for a ratio, is named with the rank and its bytes."""
    slipped = job(replace(planted, rank_patch=f"{FAULTS}.leak_in_every_step:apply"))
    with pytest.raises(AssertionError, match=r"fsdp2 on cpu-gloo-2: resident bytes .* differ:\n +launch 0 rank 0"):
        test_no_growth.test_resident_bytes_do_not_grow_from_step_to_step(slipped, "fsdp2")
    test_no_growth.test_resident_bytes_do_not_grow_from_step_to_step(slipped, "ddp")


def test_unknown_fault_names_itself(planted: Options) -> None:
    """A rank patch that cannot be imported is a usage error with its name, before anything is launched."""
    with pytest.raises(UsageError, match=r"rank patch .*nonesuch:apply' could not be applied"):
        job(replace(planted, rank_patch=f"{FAULTS}.nonesuch:apply"))
