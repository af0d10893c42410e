"""The life of a budget from the command line: nothing is written unless it is meant, and what is stale is loud."""

from __future__ import annotations

from pathlib import Path

import pytest

from correctness_tests.suite.budget_sessions import UPDATE, Session, session
from correctness_tests.suite.synthetic_budgets import (
    MODEL,
    TORCH14,
    accepted,
    host,
    judged,
    memory,
)
from fixtures.gate.budget_files import load_budgets
from fixtures.gate.budgets import Reading
from fixtures.measurements import Stack
from fixtures.session.budgets import load_readings

pytestmark = pytest.mark.cpu

__all__ = ["session"]  # the fixture


def test_kept_budgets_pass(session: Session) -> None:
    """What was accepted is read again: a pass, one line at the end, and the file as it was."""
    before = session.accept()
    result = session.run()
    assert (result.ret, session.path.read_bytes()) == (pytest.ExitCode.OK, before)
    result.stdout.fnmatch_lines(["budgets on cpu-solo-8: 3 of 3 as accepted, running torch 2.13.0+cpu*"])


def test_without_entries_it_fails_with_the_command(session: Session) -> None:
    """NO_BASELINE fails, and the command that it prints records what was read; then it passes."""
    result = session.run()
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["NO_BASELINE mlp/fsdp2/traffic on cpu-solo-8", "*--update-baselines*"])
    assert session.run(*UPDATE).ret == pytest.ExitCode.OK
    assert set(load_budgets(session.path).entries) == set(accepted().entries)
    assert session.run().ret == pytest.ExitCode.OK


def test_worse_needs_its_name(session: Session) -> None:
    """More bytes are refused by an update, which fails and changes nothing; named, they are written with the reason."""
    before = session.accept()
    session.readings["memory"] = memory(resident=5000)
    refused = session.run(*UPDATE)
    assert (refused.ret, session.path.read_bytes()) == (pytest.ExitCode.TESTS_FAILED, before)
    refused.stdout.fnmatch_lines(["ERROR: not updated: mlp/fsdp2/memory: more than *", "*--accept mlp/fsdp2/memory"])
    assert session.run(*UPDATE, "--accept", "mlp/fsdp2/memory").ret == pytest.ExitCode.OK
    entry = load_budgets(session.path).entries["mlp/fsdp2/memory"]
    assert (entry.figures["resident bytes"], entry.provenance.accepted) == (5000, True)
    assert (entry.provenance.reason, entry.history[0].figures["resident bytes"]) == ("torch 2.14", 4096)


def test_better_needs_no_name(session: Session) -> None:
    """Fewer bytes fail a check, and an update takes them."""
    session.accept()
    session.readings["memory"] = memory(resident=4000)
    assert session.run().ret == pytest.ExitCode.TESTS_FAILED
    assert session.run(*UPDATE).ret == pytest.ExitCode.OK


def test_an_upgrade_fails_prints_the_move_and_can_be_accepted(session: Session) -> None:
    """Calls +5% of the stack before: REGRESSED with both stacks; accepted by a pattern, both stacks have an entry."""
    session.accept()
    session.stack, session.readings["host"] = TORCH14, host(forward=1050, backward=2100)
    failed = session.run()
    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    failed.stdout.fnmatch_lines(["*calls +5.0%: torch 2.13, Python 3.11 (accepted) -> torch 2.14,*"])
    assert session.run(*UPDATE, "--accept", "*/host").ret == pytest.ExitCode.OK
    passed = session.run()
    assert passed.ret == pytest.ExitCode.OK
    passed.stdout.fnmatch_lines(["calls of mlp against torch 2.13, Python 3.11 (shown only): fsdp2 +5.0%"])


def test_a_part_is_updated_alone(session: Session) -> None:
    """``-k memory``: the others' entries stay, though their readings moved, and nothing is stale."""
    session.accept()
    session.readings |= {"memory": memory(resident=4000), "host": host(adds=9)}
    assert session.run("-k", "memory", *UPDATE).ret == pytest.ExitCode.OK
    file = load_budgets(session.path)
    assert file.entries["mlp/fsdp2/memory"].figures["resident bytes"] == 4000
    assert file.entries["mlp/fsdp2/host/torch-2.13-python-3.11"].figures["forward operators"] == 15


@pytest.mark.parametrize("how", ["CI", "dry run"])
def test_a_dry_run_writes_beside_the_results_only(session: Session, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Where CI is set, or with ``--dry-run``: the file stays, what it would become lies beside the results."""
    before = session.accept()
    session.readings["memory"] = memory(resident=4000)
    if how == "CI":
        monkeypatch.setenv("CI", "true")
    session.run(*UPDATE, "--results", "out", *(["--dry-run"] if how == "dry run" else []))
    assert session.path.read_bytes() == before
    proposed = load_budgets(session.pytester.path / "out" / "judged" / session.path.name)
    assert proposed.entries["mlp/fsdp2/memory"].figures["resident bytes"] == 4000
    assert len(load_readings(session.pytester.path / "out" / "judged" / "budgets.json")) == 3


def test_uncommitted_code_needs_a_word(session: Session) -> None:
    """A dirty tree is refused before anything is read; with ``--allow-dirty`` its readings are stored as dirty."""
    before = session.accept()
    session.dirty, session.readings["memory"] = True, memory(resident=4000)
    refused = session.run("-k", "memory", *UPDATE)
    assert (refused.ret, session.path.read_bytes()) == (pytest.ExitCode.USAGE_ERROR, before)
    refused.stderr.fnmatch_lines(["ERROR: --update-baselines with uncommitted changes: *--allow-dirty. Nothing was*"])
    assert session.run("-k", "memory", *UPDATE, "--allow-dirty").ret == pytest.ExitCode.OK
    assert load_budgets(session.path).entries["mlp/fsdp2/memory"].provenance.dirty is True


def test_an_unsteady_step_is_invalid(session: Session) -> None:
    """Two steps that differ have no budget: the check fails, an update stores nothing of it."""
    before = session.accept()
    session.faults = {"memory": "two steady steps differ: {'resident bytes': (1, 2)}"}
    result = session.run("-k", "memory", *UPDATE)
    assert (result.ret, session.path.read_bytes()) == (pytest.ExitCode.TESTS_FAILED, before)
    result.stdout.fnmatch_lines(["*INVALID mlp-fsdp2-memory on cpu-solo-8: two steady steps differ*"])


def test_an_entry_without_a_test_is_stale(session: Session) -> None:
    """A case that no test reads any more fails the session; ``-k`` and ``::`` leave it alone; ``--delete`` ends it."""
    file = accepted()
    session.accept(
        file.model_copy(update={"entries": {**file.entries, "mlp/fsdp9/memory": file.entries["mlp/fsdp2/memory"]}})
    )
    result = session.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["ERROR: stale: mlp/fsdp9/memory: it has an entry and no test; --delete mlp/fsdp9/memory"]
    )
    assert session.run("-k", "host").ret == pytest.ExitCode.OK
    assert session.run("test_memory.py::test_memory").ret == pytest.ExitCode.OK
    assert session.run(*UPDATE, "--delete", "mlp/fsdp9/memory").ret == pytest.ExitCode.OK
    assert [gone.case for gone in load_budgets(session.path).deleted] == ["mlp/fsdp9/memory"]


def test_a_model_of_ones_own_is_gated_by_its_entry(session: Session) -> None:
    """``--workload``: its budgets are recorded beside the suite's, then an extra message fails; the suite's rest."""
    session.accept()
    own = ("--workload", "my_models:factory")
    assert session.run(*own, *UPDATE).ret == pytest.ExitCode.OK
    assert "my_models:factory/fsdp2/traffic" in load_budgets(session.path).entries
    extra = [*session.readings["traffic"].events, "optimizer all-gather bfloat16 64"]
    session.readings["traffic"] = Reading(
        figures={
            **session.readings["traffic"].figures,
            "all-gather bfloat16 count": 3,
            "all-gather bfloat16 bytes": 2112,
        },
        events=extra,
    )
    result = session.run(*own)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*+   4 optimizer all-gather bfloat16 64*", "the budgets also have, *: mlp"])


def test_a_broken_file_stops_the_session(session: Session) -> None:
    """Before anything is read: one usage error with the path."""
    session.path.write_text("{")
    result = session.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *cpu-solo-8.budgets.json: line 1*"])


def test_an_interrupted_session_writes_nothing(session: Session) -> None:
    """Stopped after a reading that moved: the file stays as it was."""
    before = session.accept()
    session.readings["memory"] = memory(resident=4000)
    session.pytester.makepyfile(test_z="import pytest\n@pytest.mark.cpu\ndef test_z():\n    pytest.exit('stop')\n")
    result = session.run(*UPDATE)
    assert (result.ret, session.path.read_bytes()) == (pytest.ExitCode.INTERRUPTED, before)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-k", "plain"), "none of the selected ones does: select perf_tests"),
        (("--accept", "mlp/fsdp2:ddp/peak"), "mlp/fsdp2:ddp/peak: named by *no check of the gpu tier*"),
        (("-k", "plain", "--accept", "mlp/fsdp2/host"), "none of the selected ones does"),
    ],
)
def test_an_update_of_nothing_is_refused(session: Session, arguments: tuple[str, ...], words: str) -> None:
    """No selected check has figures, or a name is of figures that none has: one usage error, nothing is run."""
    session.pytester.makepyfile(test_plain="import pytest\n@pytest.mark.cpu\ndef test_plain():\n    pass\n")
    result = session.run(*UPDATE, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{words}*"])


def test_stack_without_a_version_is_refused() -> None:
    """A torch whose version is no number can't have an entry."""
    with pytest.raises(ValueError, match="is no version"):
        judged("host", host(), accepted(), Stack(torch="unknown", python="3.11.7"))


def test_synthetic_model_is_the_one_that_is_read(session: Session, tmp_path: Path) -> None:
    """The control: the stand-in's model is the entries' model, so that no verdict above is for another reason."""
    read = session.read("mlp").workload
    assert (read.num_params, read.shape_hash) == (MODEL.num_params, MODEL.shape_hash)
