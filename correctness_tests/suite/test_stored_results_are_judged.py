"""``--from-results`` judges stored launches through the very checks of the nightly, each verdict as it must be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from correctness_tests.suite.judging import GPUS, NIGHT, ROOT, Judge, judge, slipped, told_command
from correctness_tests.suite.synthetic import ARMS, accepted
from fixtures.gate.baselines import load_baseline
from fixtures.measurements import Stack
from fixtures.report.results import save_results

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture


def test_same_code_passes(judge: Judge) -> None:
    """Another night of the same code: exit 0, and every gated case says PASS."""
    result = judge.run(replace(NIGHT, seed=1))
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert sum(line.endswith("PASS") for line in result.outlines) == 6


def test_slower_arm_is_named(judge: Judge) -> None:
    """A step 14% slower in fsdp2 alone is REGRESSED against ddp, and the message says which arm moved."""
    result = judge.run(slipped("fsdp2", step=1.14))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["REGRESSED gpt2-rehearsal/fsdp2:ddp/step on cuda-nccl-8--test-gpu"])
    result.stdout.re_match_lines([r"  moved       ddp unchanged \([+-][0-3]\.\d%\), fsdp2 \+1[2-6]\.\d%"])


def test_slower_reference_arm_is_named(judge: Judge) -> None:
    """ddp slower makes the ratio better: IMPROVED fails too, and ddp is the arm that moved."""
    result = judge.run(slipped("ddp", step=1.2))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["IMPROVED gpt2-rehearsal/fsdp2:ddp/step on *"])
    result.stdout.re_match_lines([r"  moved       ddp \+(19|2[01])\.\d%, fsdp2 unchanged"])


def test_small_memory_move_warns(judge: Judge) -> None:
    """2% more memory passes, with a star and a line that names it."""
    result = judge.run(slipped("fsdp2", resident=1.02))
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["* gpt2-rehearsal/fsdp2:ddp/resident: *+2.0%*"])


def test_missing_rank_is_invalid(judge: Judge) -> None:
    """A launch that lacks a rank's samples is INVALID, not a pass on the ranks that are there."""
    measurements = replace(NIGHT, seed=1).measurements()
    short = measurements[3].model_copy(update={"ranks": measurements[3].ranks[:-1]})
    save_results(judge.results, [*measurements[:3], short, *measurements[4:]])
    result = judge.judge()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INVALID gpt2-rehearsal/fsdp2:ddp/peak" in result.stdout.str()
    assert "has samples of ranks [0, 1, 2, 3, 4, 5, 6], not of all 8" in " ".join(result.stdout.str().split())


def test_other_stack_is_judged_by_the_old_baseline(judge: Judge) -> None:
    """After an upgrade the old figures still judge, and the table says so."""
    result = judge.run(replace(NIGHT, seed=1, stack=Stack(torch="2.14.1", python="3.11.9", nccl="2.28.3")))
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*baseline from torch 2.13.0, running torch 2.14.1*"])


def test_no_baseline_fails(judge: Judge) -> None:
    """A platform without accepted figures guards nothing, so the tier that was asked for fails."""
    (judge.baselines / f"{GPUS.key}.json").unlink()
    result = judge.run(NIGHT)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["NO_BASELINE gpt2-rehearsal/*"])


def test_lost_case_fails_the_session(judge: Judge) -> None:
    """A case that the baseline names and nothing measured fails a session whose every test passed."""
    file = accepted(NIGHT)
    entry = file.entries["gpt2-rehearsal/fsdp2:ddp/resident"]
    judge.accept(
        file.model_copy(update={"entries": {**file.entries, "gpt2-rehearsal/fsdp2-noreshard:ddp/resident": entry}})
    )
    result = judge.run(replace(NIGHT, seed=1))
    assert result.parseoutcomes().get("failed", 0) == 0
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: lost: gpt2-rehearsal/fsdp2-noreshard:ddp/resident*"])


def test_part_of_the_checks_loses_nothing(judge: Judge) -> None:
    """Selecting one check with ``-k`` does not make the other cases lost."""
    assert judge.run(replace(NIGHT, seed=1), "-k", "resident and fsdp2:ddp").ret == pytest.ExitCode.OK


def test_broken_baseline_is_a_usage_error(judge: Judge) -> None:
    """A broken file is named with its line before anything is judged, exit status 4, and left as it was."""
    path = judge.baselines / f"{GPUS.key}.json"
    path.write_text(broken := path.read_text()[:200])
    result = judge.run(NIGHT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{path.name}*line*"])
    assert path.read_text() == broken


def test_update_writes_the_selected_cases(judge: Judge) -> None:
    """``--update-baselines`` changes what is selected, keeps the old entry as history, and then passes."""
    night = slipped("fsdp2", resident=1.05)
    result = judge.run(night, "-k", "resident", "--update-baselines", "--reason", "a larger buffer, on purpose")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    entries = json.loads((judge.baselines / f"{GPUS.key}.json").read_text())["entries"]
    resident, peak = (entries[f"gpt2-rehearsal/fsdp2:ddp/{metric}"] for metric in ("resident", "peak"))
    assert resident["provenance"]["reason"] == "a larger buffer, on purpose"
    assert [past["provenance"]["reason"] for past in resident["history"]] == ["the first night"]
    assert peak["history"] == []


def test_update_refuses_a_regression(judge: Judge) -> None:
    """A slip beyond the tolerance is not laundered by an update: refused, and the session still fails."""
    before = (judge.baselines / f"{GPUS.key}.json").read_text()
    result = judge.run(slipped("fsdp2", step=1.2), "-k", "step", "--update-baselines", "--reason", "torch 2.14.1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    entry = json.loads((judge.baselines / f"{GPUS.key}.json").read_text())["entries"]["gpt2-rehearsal/fsdp2:ddp/step"]
    assert entry == json.loads(before)["entries"]["gpt2-rehearsal/fsdp2:ddp/step"]


def test_one_command_accepts_all_that_failed(judge: Judge) -> None:
    """Three cases fail, of which two need their names: pasted, the command that ends the session accepts the three."""
    failed = judge.run(slipped("fsdp2", step=1.14, resident=1.3))
    assert failed.parseoutcomes()["failed"] == 4
    words = told_command(failed)
    assert [words[i + 1] for i, word in enumerate(words) if word == "--accept"] == [
        "gpt2-rehearsal/fsdp2:ddp/resident",
        "gpt2-rehearsal/fsdp2:ddp/step",
    ]
    assert judge.judge(*words).ret == pytest.ExitCode.OK
    passed = judge.judge()
    assert passed.ret == pytest.ExitCode.OK
    passed.stdout.no_fnmatch_line("to accept what failed*")


def test_the_command_accepts_what_was_selected(judge: Judge) -> None:
    """A session of a part of the checks, pasted, accepts that part: what else failed in the launches stays refused."""
    failed = judge.run(slipped("fsdp2", step=1.14, resident=1.3), "-k", "fsdp2:ddp and resident")
    assert failed.parseoutcomes()["failed"] == 1
    assert judge.judge(*told_command(failed)).ret == pytest.ExitCode.OK
    entries = load_baseline(judge.baselines / f"{GPUS.key}.json").entries
    assert [case_id for case_id, entry in entries.items() if entry.history] == ["gpt2-rehearsal/fsdp2:ddp/resident"]


def test_an_update_tells_what_it_needs_by_name(judge: Judge) -> None:
    """An update that refused two cases ends in the command that names them."""
    update = ("--update-baselines", "--reason", "torch 2.14.1")
    refused = judge.run(slipped("fsdp2", step=1.14, resident=1.3), *update)
    assert refused.ret == pytest.ExitCode.TESTS_FAILED
    assert judge.judge(*told_command(refused)).ret == pytest.ExitCode.OK


def test_a_patched_night_has_no_such_command(judge: Judge) -> None:
    """Figures of a planted fault are never offered."""
    result = judge.run(replace(slipped("fsdp2", step=1.14), rank_patch="faults.x:apply"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("to accept what failed*")


def test_benchmark_json_holds_the_ranks_step_times(judge: Judge) -> None:
    """pytest-benchmark's JSON has the recorded step times, a round a timed step, and ratio and verdict beside them."""
    judge.run(replace(NIGHT, own_sd=0.0, shared_sd=0.0), "--benchmark-json", "bench.json")
    benchmarks = json.loads((judge.pytester.path / "bench.json").read_text())["benchmarks"]
    found = {b["params"]["arm"]: b for b in benchmarks}
    assert set(found) == set(ARMS)
    for arm, figures in ARMS.items():
        stats, info = found[arm]["stats"], found[arm]["extra_info"]
        assert stats["rounds"] == NIGHT.launches * NIGHT.settings.timed_steps
        assert stats["median"] == pytest.approx(figures.step_ms / 1000)
        assert info["resident_bytes"] == figures.resident
        assert info["stack"]["torch"] == "2.13.0"
        assert all(ratio["verdict"] == "PASS" for ratio in info["ratios"].values())


def test_xdist_shows_the_workers_tables(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ``-n 2`` one worker judges the whole job; the terminal shows its tables once and writes the page."""
    save_results(judge.results, replace(NIGHT, seed=1).measurements())
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = judge.pytester.runpytest_subprocess(
        *("-p", "fixtures.plugin", "-m", "gpu", "-n", "2", "--from-results", "stored", "--baselines", "accepted"),
        *("--report", "page.html"),
    )
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert sum(line.endswith("PASS") for line in result.outlines) == 6
    assert result.outlines.count("report: page.html") == 1
    assert "Good: all 6 gated comparisons hold" in (judge.pytester.path / "page.html").read_text()


def test_judging_needs_no_torch(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored JSON is judged without importing torch, so a laptop or a plain CI job can do it."""
    save_results(judge.results, NIGHT.measurements())
    judge.pytester.makeconftest(
        "import sys\ndef pytest_unconfigure(config): print('torch imported:', 'torch' in sys.modules)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = judge.pytester.runpytest_subprocess(
        *("-p", "fixtures.plugin", "-m", "gpu", "-s", "--from-results", "stored", "--baselines", "accepted")
    )
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    result.stdout.fnmatch_lines(["torch imported: False"])
