"""The tables fit 80 columns of a plain log and list the worst first."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic import ARMS, WORKLOAD, Job, accepted
from fixtures.gate.comparisons import compare
from fixtures.gate.proposals import Asked, propose
from fixtures.report.tables import arms_table, proposal_notes, proposal_table, render, verdict_table, warnings

pytestmark = pytest.mark.cpu

BASELINE = accepted()
SLIPPED = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=1.142, peak=1.02, step=0.7)}, launches=4)
COMPARISONS = compare(SLIPPED.measurements(), BASELINE, gate_times=False)

GOLDEN_ARMS = """\
gpt2-rehearsal on cpu-gloo-4: lowest to highest launch
arm              launches   resident       peak    step  ktok/s
----------------------------------------------------------------
ddp                     6  12.00 GiB  20.00 GiB  480 ms    2.13
fsdp2                   6  2.000 GiB  9.000 GiB  340 ms    3.01
fsdp2-noreshard         6  2.000 GiB  10.00 GiB  280 ms    3.66
"""

GOLDEN_VERDICTS = """\
gpt2-rehearsal: baseline from torch 2.13.0, running torch 2.13.0
case                            ratio      interval   base   move sees verdict
--------------------------------------------------------------------------------
fsdp2:ddp/resident             0.1903 0.1903-0.1903 0.1667 +14.2%  10% REGRESSED
fsdp2-noreshard:fsdp2/resident 0.8757 0.8757-0.8757  1.000 -12.4%  10% IMPROVED
fsdp2-noreshard:fsdp2/peak      1.089   1.089-1.089  1.111  -2.0%  10% PASS*
fsdp2:ddp/peak                 0.4590 0.4590-0.4590 0.4500  +2.0%  10% PASS*
fsdp2-noreshard:fsdp2/step      1.176   1.176-1.176 0.8235 +42.9%    - not gated
fsdp2:ddp/step                 0.4958 0.4958-0.4958 0.7083 -30.0%    - not gated
"""


def test_arms_table_reads_as_written_here() -> None:
    """Launches that agree show one figure."""
    assert render(arms_table(Job().measurements())) == GOLDEN_ARMS


def test_arms_table_shows_the_range_of_launches() -> None:
    """Launches that differ show the lowest and the highest."""
    launches = Job(own_sd=0.05).measurements()
    steps = [m.step_ms for m in launches if m.strategy == "ddp"]
    assert f"{min(steps):.0f}-{max(steps):.0f} ms" in render(arms_table(launches))


def test_verdict_table_reads_as_written_here() -> None:
    """Worst first, what is not gated last, a star where a warning hangs on a pass."""
    assert render(verdict_table(COMPARISONS)) == GOLDEN_VERDICTS


@pytest.mark.parametrize("color", [False, True])
def test_tables_fit_80_columns(color: bool) -> None:
    """With the longest names and noisy figures no line is wider; what does not fit is folded, not cut."""
    long_name = "team/very-long-workload-name:v2[bold]" * 3
    launches = Job(own_sd=0.4, workload=WORKLOAD.model_copy(update={"name": long_name})).measurements()
    proposal = propose(compare(launches, None, True), None, Asked("x"))
    tables = [arms_table(launches), verdict_table(compare(launches, BASELINE, True)), proposal_table(proposal)]
    text = render(*tables, color=color)
    shown = [line for line in text.splitlines() if "\x1b" not in line]
    assert max(map(len, shown)) <= 80
    assert color == ("\x1b[" in text)


def test_markup_in_names_is_only_text() -> None:
    """A workload called like a style is shown by its name."""
    job = Job(workload=WORKLOAD.model_copy(update={"name": "[red]x[/red]"}))
    assert "[red]x[/red] on cpu-gloo-4" in render(arms_table(job.measurements()))


def test_markup_in_a_case_is_only_text() -> None:
    """Where cases of several workloads share a table, their names are text too."""
    names = ("[red]x[/red]", "y")
    jobs = [Job(workload=WORKLOAD.model_copy(update={"name": name})) for name in names]
    found = [c for job in jobs for c in compare(job.measurements(), None, True)]
    assert "[red]x[/red]/fsdp2:ddp" in render(verdict_table(found))


def test_tables_are_ascii() -> None:
    """A log of any encoding shows them."""
    job = Job(workload=WORKLOAD.model_copy(update={"name": "modèle 2J"}))
    assert render(arms_table(job.measurements()), verdict_table(compare(job.measurements(), None, True))).isascii()


def test_warnings_tell_the_drift_and_the_arm() -> None:
    """The line behind a star has the case, the move and the arm that moved, within 80 columns."""
    lines = warnings(COMPARISONS)
    assert "* gpt2-rehearsal/fsdp2:ddp/peak: drifting: +2.0%" in lines[0]
    assert "fsdp2 +2.0%)" in " ".join(lines)
    assert max(map(len, lines)) <= 80


def test_proposal_lists_refused_cases_first() -> None:
    """A refused case heads the table, and a note says why and how to accept it."""
    proposal = propose(COMPARISONS, BASELINE, Asked("x"))
    row = render(proposal_table(proposal)).splitlines()[3]
    assert row.split() == ["fsdp2:ddp/resident", "0.1667", "0.1903", "+14.2%", "refused", "REGRESSED"]
    assert "--accept gpt2-rehearsal/fsdp2:ddp/resident" in " ".join(proposal_notes(proposal))
