"""A job's night goes into the history, and a history that can't take it costs no verdict."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from correctness_tests.suite.judging import NIGHT, Judge, judge, slipped
from correctness_tests.suite.synthetic import ARMS, STACK, accepted
from fixtures.gate.comparisons import compare
from fixtures.gate.verdicts import Verdict
from fixtures.history import Night, append_night, read_nights
from fixtures.options import Options

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture


def test_every_verdict_of_a_session_is_kept(judge: Judge) -> None:
    """A night with a regression: exit 1, and the history has each case with its verdict, and is named at the end."""
    result = judge.run(slipped("fsdp2", step=1.14), "--history", "nights/history.sqlite")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["history: nights/history.sqlite"])
    (night,) = read_nights(judge.pytester.path / "nights" / "history.sqlite")
    verdicts = {c.case.id.removeprefix("gpt2-rehearsal/"): c.verdict for c in night.comparisons}
    assert len(verdicts) == 6
    assert verdicts["fsdp2:ddp/step"] is Verdict.REGRESSED
    assert verdicts["fsdp2:ddp/resident"] is Verdict.PASS


def test_a_history_that_can_not_be_kept_fails_at_the_end(judge: Judge) -> None:
    """Every check passes and every verdict is shown; the session fails all the same, and says which file and why."""
    (judge.pytester.path / "history.sqlite").write_text("mode,world\n" * 100)
    result = judge.run(replace(NIGHT, seed=1), "--history", "history.sqlite")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "failed" not in result.parseoutcomes()
    assert sum(line.endswith("PASS") for line in result.outlines) == 6
    result.stdout.fnmatch_lines(["ERROR: history not kept: history history.sqlite: can't be written: *Name another*"])


def test_a_shift_of_the_last_days_is_told(judge: Judge) -> None:
    """A slip that the gate lets pass, in its fifth night: the session passes, and says since when and what changed."""
    path = judge.pytester.path / "history.sqlite"
    new = STACK.model_copy(update={"nccl": "2.28.3"})
    for number in range(30):
        late = number >= 25
        arms = {**ARMS, "fsdp2": ARMS["fsdp2"].scaled(step=1.05 if late else 1.0)}
        stack = new if late else STACK.model_copy(update={"nccl": "2.27.5"})
        date = f"2026-04-{number + 1:02}T02:00:00+00:00"
        job = replace(NIGHT, own_sd=0.002, seed=number, arms=arms, date=date, stack=stack)
        append_night(path, Night.of(compare(job.measurements(), accepted(NIGHT), gate_times=True)))
    result = judge.run(replace(slipped("fsdp2", step=1.05), stack=new), "--history", "history.sqlite")
    assert result.ret == pytest.ExitCode.OK
    told = " ".join(result.stdout.str().split())
    assert re.search(
        r"since when: gpt2-rehearsal: fsdp2/ddp step time shifted \+[45]\.\d% on 26 April 2026, when NCCL changed "
        r"\(2\.27\.5 -> 2\.28\.3\)",
        told,
    )


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ((), "results/history.sqlite"),
        (("--history", "elsewhere.sqlite"), "elsewhere.sqlite"),
        (("--history", "off"), None),
        (("--from-results", "stored"), None),
        (("--from-results", "stored", "--history", "elsewhere.sqlite"), "elsewhere.sqlite"),
        (("--rank-patch", "faults.leak:apply"), None),
    ],
    ids=str,
)
def test_where_it_is_kept(pytester: pytest.Pytester, arguments: tuple[str, ...], kept: str | None) -> None:
    """A measuring run keeps its night in results/; stored results and planted faults only where a file is named."""
    config = pytester.parseconfig("-p", "fixtures.plugin", *arguments)
    history = Options.of(config).history
    assert (history and str(history)) == kept
