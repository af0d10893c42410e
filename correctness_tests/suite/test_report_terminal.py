"""A session on the terminal: a header, failures, the verdicts worst first, notes; quiet, verbose, in a log, as JUnit.

Stored results are judged, so that no figure is a machine's; what pytest itself prints of machine and time is left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from syrupy.assertion import SnapshotAssertion

from correctness_tests.suite.judging import NIGHT, ROOT, Judge, judge, slipped
from correctness_tests.suite.synthetic import ARMS, STACK, Figures, Job, accepted
from fixtures.gate.comparisons import compare
from fixtures.measurements import UnitRecord
from fixtures.report.results import save_results
from fixtures.report.tables import render, verdict_table

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

REGRESSED = replace(slipped("fsdp2", step=1.14, resident=1.02), stack=STACK.model_copy(update={"torch": "2.14.1"}))
LOG = ("-p", "no:randomly", "--benchmark-quiet")
MACHINES = (
    "platform linux|benchmark: |rootdir: |configfile: |plugins: |cachedir: |hypothesis profile|timeout|shardgate:"
)
CHECKS = r"collected \d+ items|test_night.py|\.* *\[ *\d+%\]|[.sF]+ |SKIPPED|=* *\d+ \w+, .* in "
"""Which checks there are is no matter of how they are shown: pytest's lines about that are left out too."""


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a log, whatever terminal the tests are started from."""
    monkeypatch.setenv("COLUMNS", "80")


def shown(result: pytest.RunResult) -> str:
    """A session's lines without what is this machine's, this day's or this run's."""
    lines = [line for line in result.outlines if not re.match(f"{MACHINES}|{CHECKS}", line)]
    text = re.sub(r" \\\n +", " ", "\n".join(lines)).replace(str(ROOT), "SUITE")  # where commands break, ROOT decides
    text = re.sub(r"(\.\./)+\S*perf_tests", "perf_tests", text)
    text = re.sub(r"(\.py):\d+: Failed", r"\1:LINE: Failed", text)
    return re.sub(r"\d+ days old", "N days old", text) + "\n"


def test_a_bad_night_reads_as_stored(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """A regression after an upgrade: header, both messages, table, notes, to the letter."""
    assert shown(judge.run(REGRESSED, *LOG)) == snapshot


def test_a_good_night_reads_as_stored(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """A pass, to the letter."""
    assert shown(judge.run(replace(NIGHT, seed=1), *LOG)) == snapshot


def test_notes_keep_within_the_width(judge: Judge) -> None:
    """Of a planted fault with a long name, and of a baseline's other workloads: no line under the tables is wider."""
    file = accepted(NIGHT)
    others = {f"another-workload-{i}/{case.split('/', 1)[1]}": e for i in range(3) for case, e in file.entries.items()}
    judge.accept(file.model_copy(update={"entries": {**file.entries, **others}}))
    patch = "correctness_tests.suite.faults.kept_unsharded_parameters:apply"
    lines = judge.run(replace(NIGHT, seed=1, rank_patch=patch), *LOG).outlines
    first = next(i for i, line in enumerate(lines) if line.startswith("measured with a patch on every rank"))
    notes = lines[first : next(i for i, line in enumerate(lines) if "short test summary" in line)]
    assert any("did not measure" in line for line in notes)
    assert max(map(len, notes)) <= 80


@pytest.mark.parametrize("option", ["-q", "-qq", "-v", "--tb=short", "--tb=no", "--tb=line"])
def test_options_of_pytest_do_what_they_do(judge: Judge, snapshot: SnapshotAssertion, option: str) -> None:
    """Quieter shows less, verbose names each check, ``--tb`` changes tracebacks and never cuts a message."""
    result = judge.run(REGRESSED, *LOG, option)
    assert shown(result) == snapshot
    named = [
        line for line in result.outlines if re.match(r"test_night.py::test_\w+\[.*\] (PASSED|FAILED|SKIPPED)", line)
    ]
    assert bool(named) == (option == "-v")


@pytest.mark.parametrize("option", ["--tb=auto", "--tb=long", "--tb=short", "--tb=native", "-q", "-qq", "-v"])
def test_a_message_is_complete_on_its_own(judge: Judge, option: str) -> None:
    """Whatever the traceback's style: from the headline to the command that accepts, and no line of our own code."""
    lines = judge.run(REGRESSED, *LOG, option).outlines
    start = lines.index("REGRESSED gpt2-rehearsal/fsdp2:ddp/step on cuda-nccl-8--test-gpu")
    message = lines[start : start + 24]
    assert any(line.startswith("  meaning     FSDP2 takes more time a step") for line in message)
    assert any(line.endswith('--reason "..."') for line in message)
    assert not [line for line in lines if "Traceback" in line or "job.check(" in line]


def test_a_line_fits_in_80_columns(judge: Judge) -> None:
    """Every line that is ours; pytest's header, its summary and paths are its own."""
    lines = judge.run(REGRESSED, *LOG).outlines
    ours = [line for line in lines if not re.match(rf"{MACHINES}|SKIPPED|FAILED|    ", line)]
    assert [line for line in ours if len(line) > 80] == []


@pytest.mark.parametrize(
    ("environment", "arguments", "colour"),
    [
        ({}, (), False),
        ({}, ("--color=yes",), True),
        ({"FORCE_COLOR": "1"}, (), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False),
        ({"NO_COLOR": "1"}, ("--color=yes",), True),
        ({"FORCE_COLOR": "1"}, ("--color=no",), False),
    ],
    ids=str,
)
def test_colour_is_where_pytest_has_it(
    judge: Judge,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    arguments: tuple[str, ...],
    colour: bool,
) -> None:
    """None in a log, some where it is forced or asked for; NO_COLOR wins, an option on the command line over both."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = judge.run(REGRESSED, *LOG, *arguments)
    (row,) = [line for line in result.outlines if re.match(r"\S*fsdp2:ddp/step ", line)]
    assert ("\x1b[" in row) == colour


def test_junit_has_the_whole_message(judge: Judge) -> None:
    """One failure for each check that failed, complete; the others passed or were skipped with their reason."""
    result = judge.run(REGRESSED, *LOG, "--junitxml=junit.xml")
    suite = ElementTree.parse(judge.pytester.path / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    counts = result.parseoutcomes()
    assert (suite.get("failures"), suite.get("errors")) == (str(counts["failed"]), "0")
    assert suite.get("skipped") == str(counts["skipped"])
    texts = [failure.text or "" for failure in suite.iter("failure")]
    assert [text.split()[0] for text in texts] == ["REGRESSED", "IMPROVED"]
    assert all('--reason "..."' in text and "meaning" in text for text in texts)


def test_a_complaint_is_said_however_quiet(judge: Judge) -> None:
    """What fails a session without a failing test is told in the quietest session too."""
    (judge.pytester.path / "history.sqlite").write_text("no history\n")
    result = judge.run(replace(NIGHT, seed=1), *LOG, "-qq", "--history", "history.sqlite")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: history not kept: *"])


def test_without_a_baseline_the_header_says_so(judge: Judge) -> None:
    """Nothing is guarded, and that is known before anything is judged."""
    for path in judge.baselines.iterdir():
        path.unlink()
    judge.run(NIGHT, *LOG).stdout.fnmatch_lines(["  baseline  none: nothing is accepted on this platform yet"])


def test_the_accounts_are_shown(judge: Judge) -> None:
    """Launches of the suite's own workload carry what the ledger says of them: it is told beside what was measured."""
    units = [UnitRecord(name="root", parameters={"weight": [512, 1024]})]  # 512 Ki parameters: 8 MiB under DDP
    measurements = [
        m.model_copy(
            update={
                "workload": m.workload.model_copy(update={"units": units}),
                "ranks": [r.model_copy(update={"ledger_collectives": r.collectives}) for r in m.ranks],
            }
        )
        for m in Job(small()).measurements()
    ]
    save_results(judge.results, measurements)
    lines = judge.judge(*LOG).outlines
    start = lines.index("accounts: what shapes and N demand, and what was measured")
    assert [line.split() for line in lines[start + 3 : start + 5]] == [
        ["resident,", "ddp", "MiB", "8.000", "8.400", "+5.0%"],
        ["resident,", "fsdp2", "MiB", "1.500", "1.500", "+0.0%"],
    ]
    assert lines[start + 6].split() == ["messages", "of", "a", "step,", "ddp", "bytes", "1000", "1000", "+0.0%"]


def small() -> dict[str, Figures]:
    """Arms that hold what the ledger says of 512 Ki parameters on 4 ranks, DDP 5% more."""
    psi = 512 * 1024
    held = {"ddp": round(1.05 * 16 * psi), "fsdp2": 12 * psi // 4, "fsdp2-noreshard": 12 * psi // 4}
    return {arm: Figures(resident, 2 * resident, 10.0) for arm, resident in held.items()}


def test_a_wide_case_is_broken_before_its_metric() -> None:
    """Where a verdict is long and figures are, no name is cut in the middle of a word, and 80 columns hold."""
    noisy = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(step=1.3, resident=0.8)}, own_sd=0.2, launches=3)
    lines = render(verdict_table(compare(noisy.measurements(), accepted(), gate_times=True))).splitlines()
    assert max(map(len, lines)) <= 80
    at = next(n for n, line in enumerate(lines) if line.startswith("fsdp2-noreshard:fsdp2/ "))
    assert lines[at + 1].strip() in ("resident", "peak", "step")
