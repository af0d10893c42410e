"""An upgrade's moves are split into what both arms share and what remains in their ratio."""

from __future__ import annotations

from pathlib import Path

import pytest

from correctness_tests.suite.synthetic import ARMS, STACK, WORKLOAD, Figures, Job
from fixtures.errors import UsageError
from fixtures.gate.upgrade import Split, split_moves
from fixtures.gate.verdicts import Verdict
from fixtures.measurements import PlatformRecord
from fixtures.report.tables import render
from fixtures.report.upgrades import upgrade_notes, upgrade_table
from perf_tests.upgrade import main

pytestmark = pytest.mark.cpu

NEW_STACK = STACK.model_copy(update={"torch": "2.14.1"})
NODE = PlatformRecord(device_type="cuda", backend="nccl", world_size=4, machine="card")


def split(case: str, noise: float = 0.0, **arms: Figures) -> Split:
    """How a case moves when the new stack has these arms."""
    old = Job(platform=NODE, own_sd=noise, seed=1).measurements()
    new = Job({**ARMS, **arms}, platform=NODE, own_sd=noise, seed=2, stack=NEW_STACK).measurements()
    return next(s for s in split_moves(old, new) if s.case.id.endswith(case))


def test_what_both_arms_share_is_common() -> None:
    """Both arms 20% faster: all of it common, nothing relative, and a pass; a note says that no ratio shows it."""
    faster = {name: ARMS[name].scaled(step=0.8) for name in ("ddp", "fsdp2")}
    found = split("fsdp2:ddp/step", 0.0, **faster)
    assert [found.common.ratio, found.relative.ratio] == pytest.approx([0.8, 1.0])
    assert (found.judgement.verdict, found.fails) == (Verdict.PASS, False)
    assert "both arms moved together, [-20.0%, -20.0%]" in " ".join(upgrade_notes([found]))


def test_one_arms_move_is_relative() -> None:
    """One arm 21% slower: REGRESSED by 21% relative, and half of it (10%) stands as common; the parts multiply back."""
    found = split("fsdp2:ddp/step", fsdp2=ARMS["fsdp2"].scaled(step=1.21))
    assert [found.relative.ratio, found.common.ratio] == pytest.approx([1.21, 1.1])
    assert found.numerator.ratio == pytest.approx(found.common.ratio * found.relative.ratio**0.5)
    assert found.denominator.ratio == pytest.approx(found.common.ratio / found.relative.ratio**0.5)
    assert (found.judgement.verdict, found.fails) == (Verdict.REGRESSED, True)


def test_moves_are_seen_through_noise() -> None:
    """2% of noise in each launch: both parts of a move lie in their intervals."""
    arms = {"ddp": ARMS["ddp"].scaled(step=0.9), "fsdp2": ARMS["fsdp2"].scaled(step=0.9 * 1.2)}
    found = split("fsdp2:ddp/step", noise=0.02, **arms)
    for estimate, truth in ((found.relative, 1.2), (found.common, 0.9 * 1.2**0.5)):
        assert (estimate.low or 9) < truth < (estimate.high or 0)


def test_times_on_a_cpu_are_shown_only() -> None:
    """On gloo ranks a time fails nothing; bytes do."""
    arms = {**ARMS, "fsdp2": ARMS["fsdp2"].scaled(step=2, resident=2)}
    splits = split_moves(Job().measurements(), Job(arms, stack=NEW_STACK).measurements())
    assert {s.case.metric for s in splits if s.fails} == {"resident"}


def test_fsdp1_is_split_where_both_stacks_have_it() -> None:
    """Its pair is a case of an upgrade too; on a stack without it there is none, and the model alone is none of its."""
    more = {"fsdp1": ARMS["fsdp2"], "single": ARMS["ddp"]}
    old, new = Job({**ARMS, **more}).measurements(), Job({**ARMS, **more}, stack=NEW_STACK).measurements()
    pairs = {f"{s.case.numerator}:{s.case.denominator}" for s in split_moves(old, new)}
    assert pairs == {"fsdp2:ddp", "fsdp2-noreshard:fsdp2", "fsdp2:fsdp1"}
    without = split_moves(old, [m for m in new if m.strategy != "fsdp1"])
    assert "fsdp1" not in {s.case.denominator for s in without}


def test_table_fits_80_columns() -> None:
    """The table names both stacks and every part of a move."""
    text = render(upgrade_table([split("fsdp2:ddp/step", fsdp2=ARMS["fsdp2"].scaled(step=1.21))], "torch 1", "torch 2"))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.splitlines()[-1].split() == ["fsdp2:ddp/step", "+21.0%", "+0.0%", "+10.0%", "+21.0%", "REGRESSED"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stack": STACK}, "an upgrade needs two stacks"),
        ({"platform": NODE.model_copy(update={"world_size": 2})}, "different platforms"),
        ({"workload": WORKLOAD.model_copy(update={"shape_hash": "x"})}, "different workloads"),
    ],
)
def test_what_cannot_be_split_is_refused(change: dict[str, object], words: str) -> None:
    """The same stack twice, other platforms, other workloads: named."""
    job: dict[str, object] = {"platform": NODE, "stack": NEW_STACK, **change}
    with pytest.raises(UsageError, match=words):
        split_moves(Job(platform=NODE).measurements(), Job(**job).measurements())  # type: ignore[arg-type]


def test_launches_that_differ_are_told_in_short() -> None:
    """Two shapes of one workload, cut where they would fill the screen."""
    other = WORKLOAD.model_copy(update={"shape_hash": "y" * 60, "name": "n" * 199})
    old, new = Job().measurements(), Job(workload=other, stack=NEW_STACK).measurements()
    texts = " / ".join(sorted(workload.model_dump_json() for workload in (WORKLOAD, other)))
    with pytest.raises(UsageError) as caught:
        split_moves(old, new)
    assert str(caught.value) == f"the two stacks were measured on different workloads: {texts[:300]}"
    assert len(texts) > 301


def test_one_side_has_one_stack() -> None:
    """Launches of two stacks on one side, or none at all: named."""
    mixed = [*Job(stack=NEW_STACK).measurements(), *Job().measurements()]
    with pytest.raises(UsageError) as caught:
        split_moves(Job().measurements(), mixed)
    assert str(caught.value) == f"one side of an upgrade has the stacks {STACK} / {NEW_STACK}, not one."
    with pytest.raises(UsageError, match="has the stacks none, not one"):
        split_moves([], mixed)


def test_case_is_of_its_precision() -> None:
    """A job in pure fp32 is told from one in mixed precision, as in a baseline."""
    settings = Job().settings.model_copy(update={"precision": "fp32"})
    old, new = (Job(settings=settings, stack=stack).measurements() for stack in (STACK, NEW_STACK))
    assert all(s.case.id.endswith("/fp32") for s in split_moves(old, new))


def test_times_may_drift_further_than_bytes() -> None:
    """2% apart warns of memory and not of time, as it does between nights."""
    more = ARMS["fsdp2"].scaled(step=1.02, resident=1.02)
    step, resident = (split(f"fsdp2:ddp/{metric}", fsdp2=more).judgement.warning for metric in ("step", "resident"))
    assert (step, "drifting: +2.0%" in (resident or "")) == (None, True)


def test_interpreter_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is no Python: one line, exit status 2."""
    assert main(["--old", str(tmp_path / "python"), "--new", "python", "--results", str(tmp_path)]) == 2
    assert f"upgrade: {tmp_path / 'python'}: No such file" in capsys.readouterr().err


def test_its_sessions_leave_history_and_ci_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session of one of the stacks is no night of the machine's history, and tells GitHub nothing."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $* > {tmp_path}/given\nenv > {tmp_path}/env\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert main(["--old", str(python), "--new", str(python), "--results", str(tmp_path / "results")]) == 2
    assert "ended with status 3" in capsys.readouterr().err
    assert " --history off " in (tmp_path / "given").read_text()
    assert "GITHUB_" not in (tmp_path / "env").read_text()
