"""A failing comparison's message is complete on its own, in ASCII, within 80 columns, with commands to paste."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.synthetic import ARMS, STACK, WORKLOAD, Job, accepted
from fixtures.gate.comparisons import Comparison, compare
from fixtures.gate.proposals import Asked, propose
from fixtures.gate.verdicts import Verdict
from fixtures.report.messages import COMMAND, failure_message, missing_message

pytestmark = pytest.mark.cpu

REHEARSAL = (*COMMAND, "--rehearse")
BASELINE = accepted()
NEWER = STACK.model_copy(update={"torch": "2.14.1"})


def compared(job: Job, case: str = "fsdp2:ddp/resident", known: bool = True) -> Comparison:
    """One comparison of a job."""
    found = compare(job.measurements(), BASELINE if known else None, gate_times=True)
    return next(c for c in found if c.case.id.endswith(case))


LEAK = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=1.142)}, launches=4, stack=NEWER)
FAILING = {
    Verdict.REGRESSED: compared(LEAK),
    Verdict.IMPROVED: compared(Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=0.8)})),
    Verdict.INCONCLUSIVE: compared(Job(own_sd=0.4), "fsdp2:ddp/step"),
    Verdict.NO_BASELINE: compared(Job(), known=False),
    Verdict.INVALID: compared(Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=0.0)})),
}

GOLDEN_REGRESSED = """\
REGRESSED gpt2-rehearsal/fsdp2:ddp/resident on cpu-gloo-4
  measured    ratio 0.1903 [0.1903, 0.1903] over 4 pairs (lower is better)
  baseline    ratio 0.1667 [0.1667, 0.1667] over 6 pairs
              measured, 2026-05-02T03:04:05+00:00, commit 0123456789ab: "the
              first night"
              with torch 2.13.0, Python 3.11.9
  running     torch 2.14.1, Python 3.11.9
  difference  +14.2% [+14.2%, +14.2%]; allowed: +/-10%
  arms        ddp 12.00 GiB, baseline 12.00 GiB
              fsdp2 2.284 GiB, baseline 2.000 GiB
  moved       ddp unchanged (+0.0%), fsdp2 +14.2%
  verdict     REGRESSED: 14.2% worse than the baseline, more than 10%
  could see   a slip of 10.0%, 95 times in 100
  meaning     FSDP2 keeps more bytes at rest than it did; DDP did not move.
  run this check alone:
    pytest perf_tests -m gpu --rehearse -k 'fsdp2:ddp and resident'
  accept it, when it is meant:
    pytest perf_tests -m gpu --rehearse --update-baselines \\
      --accept gpt2-rehearsal/fsdp2:ddp/resident --reason "..."
"""

GOLDEN_NO_BASELINE = """\
NO_BASELINE gpt2-rehearsal/fsdp2:ddp/resident on cpu-gloo-4
  measured    ratio 0.1667 [0.1667, 0.1667] over 6 pairs (lower is better)
  baseline    none
  arms        ddp 12.00 GiB
              fsdp2 2.000 GiB
  verdict     NO_BASELINE: no accepted ratio is stored for this case
  meaning     Nothing was accepted for this case on this platform yet, so
              nothing is guarded.
  run this check alone:
    pytest perf_tests -m gpu -k 'fsdp2:ddp and resident'
  record it:
    pytest perf_tests -m gpu --update-baselines --reason "..."
"""


def test_regression_reads_as_written_here() -> None:
    """The whole message of a regression in a rehearsal, to the letter."""
    assert failure_message(FAILING[Verdict.REGRESSED], command=REHEARSAL) + "\n" == GOLDEN_REGRESSED


def test_missing_baseline_reads_as_written_here() -> None:
    """The whole message where nothing was accepted yet, to the letter."""
    assert failure_message(FAILING[Verdict.NO_BASELINE]) + "\n" == GOLDEN_NO_BASELINE


@pytest.mark.parametrize("verdict", FAILING)
def test_message_leads_with_the_verdict(verdict: Verdict) -> None:
    """Every failing verdict has a message that starts with it, the case and the platform."""
    comparison = FAILING[verdict]
    assert comparison.judgement.verdict is verdict
    assert failure_message(comparison).startswith(f"{verdict} {comparison.case.id} on cpu-gloo-4\n")


@pytest.mark.parametrize("verdict", FAILING)
def test_message_gives_reason_and_meaning(verdict: Verdict) -> None:
    """Each says why in full and what it means."""
    flat = " ".join(failure_message(FAILING[verdict]).split())
    assert FAILING[verdict].judgement.reason in flat
    assert " meaning " in flat


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_foreign_text_stays_ascii_and_on_its_line(name: str, reason: str) -> None:
    """Whatever a workload or a reason is called: printable ASCII, in lines of at most 80 columns."""
    comparison = FAILING[Verdict.REGRESSED]
    assert comparison.baseline is not None
    provenance = comparison.baseline.provenance.model_copy(update={"reason": reason})
    told = comparison.model_copy(
        update={
            "case": comparison.case.model_copy(update={"workload": name}),
            "baseline": comparison.baseline.model_copy(update={"provenance": provenance}),
        }
    )
    lines = failure_message(told).split("\n")
    assert all(" " <= c <= "~" for line in lines for c in line)
    commands = re.compile(r" {4}(?:  )?\S")  # never broken inside a word; nor is the name in the headline
    assert [line for line in lines[1:] if len(line) > 80 and not commands.match(line)] == []


@pytest.mark.parametrize("verdict", [Verdict.REGRESSED, Verdict.IMPROVED, Verdict.NO_BASELINE])
def test_command_can_be_pasted(verdict: Verdict) -> None:
    """The last command is one shell command: its continuation lines join, its quotes close."""
    command = failure_message(FAILING[verdict]).split("\n    pytest ")[-1].replace("\\\n", "")
    assert shlex.split(command)[-2:] == ["--reason", "..."]


def test_accept_names_what_the_proposal_accepts() -> None:
    """The name in the message is the name that a proposal takes."""
    words = shlex.split(failure_message(FAILING[Verdict.REGRESSED]).split("\n    pytest ")[-1].replace("\\\n", ""))
    accept = frozenset({words[words.index("--accept") + 1]})
    rows = propose(compare(LEAK.measurements(), BASELINE, False), BASELINE, Asked("x", accept)).rows
    assert {row.case_id: row.action for row in rows}[FAILING[Verdict.REGRESSED].case.id] == "updated"


def test_baseline_of_a_family_is_named() -> None:
    """Where another key's file judged, the message says which."""
    told = FAILING[Verdict.REGRESSED].model_copy(update={"baseline_key": "cpu-gloo"})
    assert "from cpu-gloo, which speaks for this machine's kind" in failure_message(told)


def test_wild_launch_is_said() -> None:
    """A launch far from the others is named, and that it counts."""
    estimate = FAILING[Verdict.REGRESSED].estimate
    assert estimate is not None
    wild = FAILING[Verdict.REGRESSED].model_copy(update={"estimate": estimate.model_copy(update={"wild": (3,)})})
    assert "launch 3 is far from the others (it counts all the same)" in failure_message(wild)


def test_changed_workload_is_told_in_full() -> None:
    """A baseline of another shape is NO_BASELINE with both shapes in the message."""
    other = compared(Job(workload=WORKLOAD.model_copy(update={"shape_hash": "def456"})))
    flat = " ".join(failure_message(other).split())
    assert "the stored entry is of another run: shape_hash abc123 then, def456 now" in flat
    assert "What was accepted is of another run and can't judge this one: run it as it was accepted." in flat


def test_lost_cases_are_listed() -> None:
    """The message of rule 2 counts and lists every lost case; with none lost there is no message."""
    said = missing_message(["w/fsdp2:ddp/peak", "w/fsdp2:ddp/step"])
    assert said.splitlines()[:3] == [
        "2 cases of the baseline not measured:",
        "  w/fsdp2:ddp/peak",
        "  w/fsdp2:ddp/step",
    ]
    assert missing_message([]) == ""
