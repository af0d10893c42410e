"""What a session says of a ratio follows which arms moved and in which direction, not the verdict's own word."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from correctness_tests.suite import pages
from correctness_tests.suite.judging import NIGHT, Judge, judge
from correctness_tests.suite.synthetic import ARMS, Job, accepted
from fixtures.gate.comparisons import ArmSummary, Comparison, compare
from fixtures.gate.verdicts import Verdict
from fixtures.report.messages import failure_message
from fixtures.report.movement import Direction, directions, hidden, meaning, together
from fixtures.report.pages import Run, render_page
from fixtures.report.pages.headline import headline
from fixtures.report.summary import COMMENT_LIMIT, markdown
from fixtures.report.tables import render, verdict_table, warnings

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

B, U, W, N = Direction  # better, unchanged, worse, not known
BASELINE = accepted()
(DRAWN,) = [c for c in compare(Job().measurements(), BASELINE, True) if c.case.id.endswith("/fsdp2:ddp/step")]
MOVES = {B: 0.7, U: 1.01, W: 1.4}
ALL = list(product((Verdict.REGRESSED, Verdict.IMPROVED, Verdict.PASS), Direction, Direction))
FAILING = [one for one in ALL if one[0] is not Verdict.PASS]

FELL = {
    (B, B): "FSDP2 by more. Good news once someone knows why",
    (B, U): "Good news once someone knows why",
    (B, W): "no good news of DDP. Explain both.",
    (U, W): "No good news: the ratio fell because DDP got worse. Mend it",
    (W, W): "No good news: the ratio fell because DDP got worse by more. Mend it",
    (N, W): "No good news of DDP: the ratio fell at least in part because it got worse.",
    **dict.fromkeys(
        ((B, N), (U, N), (W, N), (N, N), (N, B), (N, U)), "The ratio fell: FSDP2 got better, or DDP worse."
    ),
    **dict.fromkeys(((U, B), (U, U), (W, B), (W, U)), "does not explain why the ratio of the pairs fell"),
}
ROSE = {
    (W, W): "than they did. FSDP2 by more.",
    (W, U): "FSDP2 takes more time a step than it did; DDP did not move.",
    (W, B): "The ratio adds the two up.",
    (U, B): "Nothing costs more: the ratio rose because DDP got better. Accept it",
    (B, B): "Nothing costs more: the ratio rose because DDP got better by more. Accept it",
    **{ways: "The ratio rose: FSDP2 got worse, or DDP better." for ways in product(Direction, Direction) if N in ways},
    **dict.fromkeys(((U, W), (U, U), (B, W), (B, U)), "does not explain why the ratio of the pairs rose"),
}
HELD = {
    ways: "does not show that" if ways in ((B, B), (W, W)) else "costs what was accepted" if set(ways) <= {U, N} else ""
    for ways in product(Direction, Direction)
}


def moved(verdict: Verdict, top: Direction, bottom: Direction, workload: str = "model") -> Comparison:
    """A judged ratio of step times whose arms went where they are told; an unknown one has nothing accepted."""

    def arm(was: ArmSummary, way: Direction) -> ArmSummary:
        return was.model_copy(update={"accepted": was.median / MOVES[way] if way in MOVES else None})

    return DRAWN.model_copy(
        update={
            "case": DRAWN.case.model_copy(update={"workload": workload}),
            "numerator": arm(DRAWN.numerator, top),
            "denominator": arm(DRAWN.denominator, bottom),
            "judgement": DRAWN.judgement.model_copy(update={"verdict": verdict}),
        }
    )


@pytest.mark.parametrize(("verdict", "top", "bottom"), ALL)
def test_meaning_says_what_each_arm_did(verdict: Verdict, top: Direction, bottom: Direction) -> None:
    """Every combination: each arm with its own direction, and what that makes of a ratio that rose, fell or held."""
    c = moved(verdict, top, bottom)
    text = meaning(c)
    assert directions(c) == (top, bottom)
    assert {Verdict.REGRESSED: ROSE, Verdict.IMPROVED: FELL, Verdict.PASS: HELD}[verdict][top, bottom] in text
    assert ("takes more" in text or "take more" in text) == (W in (top, bottom))
    assert ("takes less" in text or "take less" in text) == (B in (top, bottom))
    for name, way in (("FSDP2", top), ("DDP", bottom)):
        if top is not bottom and way in (B, W):
            assert f"{name} takes {'more' if way is W else 'less'} time a step than it did" in text


@pytest.mark.parametrize(("verdict", "top", "bottom"), FAILING)
def test_an_arm_that_got_worse_is_never_good_news(verdict: Verdict, top: Direction, bottom: Direction) -> None:
    """The headline's advice is the arms' own direction, and the verdict's only where neither arm is known to move."""
    c, ways = moved(verdict, top, bottom), (top, bottom)
    head = headline(Run([], [c]))
    told = W in ways or B in ways
    more, less = (any(f"costs {word}" in line for line in head.advice) for word in ("more", "less"))
    assert more == (W in ways if told else verdict is Verdict.REGRESSED)
    assert less == (B in ways if told else verdict is Verdict.IMPROVED)
    if W in ways:
        assert "Good news" not in meaning(c)
    if verdict is Verdict.IMPROVED and bottom is W and top in (W, U):
        assert head.verdict == "Bad: 1 improved only because an arm got worse, of 1 gated comparison"


def test_every_place_has_the_same_meaning() -> None:
    """Terminal, summary and page show the sentence of every combination that fails."""
    told = [moved(*one, workload=f"model-{n}") for n, one in enumerate(FAILING)]
    summary, page = markdown(told, limit=COMMENT_LIMIT * 4), render_page(Run([], told))
    places = [" ".join(text.split()) for text in (summary, page)]
    assert len(told) == 32
    for c in told:
        message = " ".join(failure_message(c).split())
        assert f"meaning {meaning(c)}" in message
        assert all(text.count(f"meaning {meaning(c)}") >= 1 for text in places)


def both(factor: float, **more: object) -> list[Comparison]:
    """A night on which every arm's step takes so many times as long."""
    slower = {arm: figures.scaled(step=factor) for arm, figures in ARMS.items()}
    return compare(Job(slower, **more).measurements(), BASELINE, gate_times=True)  # type: ignore[arg-type]


def test_both_arms_worse_is_read_as_such() -> None:
    """DDP +40%, FSDP2 +20%, drawn and judged: IMPROVED, and no line of it is glad."""
    slower = {**ARMS, "ddp": ARMS["ddp"].scaled(step=1.4), "fsdp2": ARMS["fsdp2"].scaled(step=1.2)}
    found = compare(Job(slower).measurements(), BASELINE, gate_times=True)
    (c,) = [c for c in found if c.case.id.endswith("/fsdp2:ddp/step")]
    assert c.judgement.verdict is Verdict.IMPROVED
    assert meaning(c).startswith("FSDP2 and DDP both take more time a step than they did. No good news")
    assert not [line for line in headline(Run([], found)).advice if "costs less" in line]


def test_arms_that_moved_together_are_said_once() -> None:
    """Every arm 18% slower: no ratio moves, and one text names the metric, each arm, the network and what to do."""
    network = "the network: all-reduce -15% against the table accepted 2026-11-02: slower tonight"
    (text,) = together(both(1.18), network)
    assert text == (
        "All arms moved together, so no ratio can see it: step time of DDP +18.0%, FSDP2 +18.0%, FSDP2 without reshard "
        "+18.0%. The network: all-reduce -15% against the table accepted 2026-11-02: slower tonight. The stack is the "
        "baseline's: look at the code that they share and at the machine."
    )
    (later,) = together(both(1.18, stack=pages.LATER))
    assert "(torch 2.13.0 -> 2.14.1): tox -e upgrade runs both in turn and says what the arms share" in later


def test_what_another_ratio_shows_is_not_hidden() -> None:
    """FSDP2 is 30% faster with and without reshard and DDP is not: fsdp2:ddp says so, and nobody says no ratio can."""
    faster = {arm: figures if arm == "ddp" else figures.scaled(step=0.7) for arm, figures in ARMS.items()}
    found = compare(Job(faster).measurements(), BASELINE, gate_times=True)
    assert hidden(found) == []
    assert hidden(both(1.0)) == []


def test_the_table_stars_what_no_ratio_can_see() -> None:
    """A star on each such row, and one line under the table, within 80 columns."""
    found = both(1.3)
    rows = [line for line in render(verdict_table(found)).splitlines() if "/step" in line]
    lines = warnings(found)
    assert len(rows) == 2
    assert all(row.endswith("PASS*") for row in rows)
    assert lines[0].startswith("* All arms moved together, so no ratio can see it")
    assert max(map(len, lines)) <= 80


def test_no_place_calls_it_good() -> None:
    """Headline, page and summary say that both arms moved; the session passes all the same."""
    slower = {arm: figures.scaled(step=1.18) for arm, figures in ARMS.items()}
    run = pages.run_of(replace(pages.NIGHT, arms=slower))
    head = headline(run)
    assert (head.state, head.verdict) == ("drifting", "The ratios hold, but in 2 of 6 both arms moved together")
    assert head.advice[0].startswith("All arms moved together, so no ratio can see it: step time of DDP +")
    assert "no ratio can see it: step time of DDP +" in render_page(run)
    summary = markdown(run.comparisons, limit=COMMENT_LIMIT)
    assert summary.startswith("### Shardgate: 6 cases passed; in 2 both arms moved together, which no ratio can see\n")


def test_a_session_says_it_and_passes(judge: Judge) -> None:
    """18% more time in every arm, on stored results: exit status 0, and the terminal says what no ratio can see."""
    slower = {arm: figures.scaled(step=1.18) for arm, figures in ARMS.items()}
    result = judge.run(replace(NIGHT, arms=slower), "-p", "no:randomly")
    assert result.ret == pytest.ExitCode.OK
    said = " ".join(" ".join(result.outlines).split())
    assert "* All arms moved together, so no ratio can see it: step time of DDP +18.0%, FSDP2 +18.0%" in said
