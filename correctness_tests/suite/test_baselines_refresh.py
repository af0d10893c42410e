"""A refresh from the command line: nothing is written unless it is meant, and what a night proposes can be accepted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from correctness_tests.suite.judging import GPUS, NIGHT, Judge, judge, slipped, told_command
from correctness_tests.suite.synthetic import CPU4, Job, accepted
from fixtures import experiment
from fixtures.experiment import Outcome
from fixtures.gate.baselines import load_baseline
from fixtures.report.results import save_results

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

FILE = f"{GPUS.key}.json"
UPDATE = ("--update-baselines", "--reason", "torch 2.14.1")
CASE = "gpt2-rehearsal/fsdp2:ddp/resident"


def test_ci_proposes_and_does_not_write(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CI is set an update is a dry run: the baseline stays, the file it would be lies beside the results."""
    monkeypatch.setenv("CI", "true")
    before = (judge.baselines / FILE).read_bytes()
    result = judge.run(slipped("fsdp2", resident=1.05), *UPDATE, "--results", "out")
    assert (judge.baselines / FILE).read_bytes() == before
    proposed = load_baseline(judge.pytester.path / "out" / "judged" / FILE)
    assert proposed.entries[CASE].provenance.reason == "torch 2.14.1"
    assert "a dry run: --write-baselines writes it" in result.stdout.str()


def test_ci_writes_when_told(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--write-baselines`` writes even in CI; ``--dry-run`` does not even outside of it."""
    before = (judge.baselines / FILE).read_bytes()
    judge.run(slipped("fsdp2", resident=1.05), *UPDATE, "--dry-run")
    assert (judge.baselines / FILE).read_bytes() == before
    monkeypatch.setenv("CI", "true")
    judge.judge(*UPDATE, "--write-baselines")
    assert load_baseline(judge.baselines / FILE).entries[CASE].provenance.reason == "torch 2.14.1"


def test_missing_baseline_is_proposed_with_its_command(judge: Judge) -> None:
    """NO_BASELINE fails, leaves the proposed file as an artifact and prints the command that accepts it: it does."""
    (judge.baselines / FILE).unlink()
    result = judge.run(NIGHT, "--results", "out")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert set(load_baseline(judge.pytester.path / "out" / "judged" / FILE).entries) == set(accepted(NIGHT).entries)
    assert list(judge.baselines.glob("*.json")) == []
    command = told_command(result)
    assert command[:2] == ["-m", "gpu"]
    assert judge.pytester.runpytest_inprocess("-p", "fixtures.plugin", *command).ret == pytest.ExitCode.OK
    assert judge.judge().ret == pytest.ExitCode.OK


def test_case_is_deleted_by_name(judge: Judge) -> None:
    """``--delete`` takes one entry away, with the reason kept; the session then fails for the test without an entry."""
    result = judge.run(replace(NIGHT, seed=1), *UPDATE, "--delete", CASE)
    file = load_baseline(judge.baselines / FILE)
    assert CASE not in file.entries
    assert [(gone.case, gone.reason) for gone in file.deleted] == [(CASE, "torch 2.14.1")]
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"NO_BASELINE {CASE} on *", f"deleted {CASE}: torch 2.14.1"])


def test_uncommitted_code_needs_a_word(judge: Judge) -> None:
    """Figures of a dirty tree fail the update and leave the file; with ``--allow-dirty`` they are written as dirty."""
    before = (judge.baselines / FILE).read_bytes()
    save_results(
        judge.results,
        [
            m.model_copy(update={"provenance": m.provenance.model_copy(update={"dirty": True})})
            for m in slipped("fsdp2", resident=1.05).measurements()
        ],
    )
    refused = judge.judge("-k", "resident", *UPDATE)
    assert (refused.ret, (judge.baselines / FILE).read_bytes()) == (pytest.ExitCode.TESTS_FAILED, before)
    refused.stdout.fnmatch_lines([f"ERROR: not updated: {CASE}: measured with uncommitted changes*--allow-dirty*"])
    assert judge.judge("-k", "resident", *UPDATE, "--allow-dirty").ret == pytest.ExitCode.OK
    assert load_baseline(judge.baselines / FILE).entries[CASE].provenance.dirty is True


def test_nights_are_pooled(judge: Judge) -> None:
    """Two folders of 3 launches are one baseline over 6 pairs that knows its two nights."""
    for night in (1, 2):
        save_results(judge.pytester.path / f"night{night}", replace(NIGHT, seed=night, launches=3).measurements())
    given = ("-p", "fixtures.plugin", "-m", "gpu", "--baselines", "accepted", "--from-results", "night1", "night2")
    result = judge.pytester.runpytest_inprocess(*given, *UPDATE)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    entry = load_baseline(judge.baselines / FILE).entries["gpt2-rehearsal/fsdp2:ddp/step"]
    assert (entry.pairs, [len(night) for night in entry.nights]) == (6, [3, 3])


def test_live_and_stored_verdicts_are_the_same_bytes(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a live session concludes, judged again from its folder without launching: the same file, byte for byte."""
    night = Job(platform=CPU4, own_sd=0.02, seed=3)
    judge.accept(accepted(replace(night, seed=4)))
    monkeypatch.setattr(experiment, "run", lambda *_, **__: Outcome(night.measurements()))
    common = ("-p", "fixtures.plugin", "-m", "gpu", "--baselines", "accepted", "-k", "not fsdp1 and not single")
    live = judge.pytester.runpytest_inprocess(*common, "--rehearse", "--results", "live")
    stored = judge.pytester.runpytest_inprocess(*common, "--from-results", "live", "--results", "again")
    assert (live.ret, stored.ret) == (pytest.ExitCode.OK, pytest.ExitCode.OK), live.stdout.str()
    texts = [(judge.pytester.path / name / "judged" / "verdicts.json").read_bytes() for name in ("live", "again")]
    assert texts[0] == texts[1]
    assert len(json.loads(texts[0])) == 6


def test_entries_of_other_workloads_are_named(judge: Judge) -> None:
    """Entries that this session had no reason to measure are no fault, and are said."""
    file = accepted(NIGHT)
    other = {f"mlp/{case_id.split('/', 1)[1]}": entry for case_id, entry in file.entries.items()}
    judge.accept(file.model_copy(update={"entries": {**file.entries, **other}}))
    result = judge.run(replace(NIGHT, seed=1))
    assert result.ret == pytest.ExitCode.OK
    assert "did not measure: 6 entries of mlp" in " ".join(result.stdout.str().split())
