"""A page says in its first lines whether the night was good, what moved and what to do; evidence comes below."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from correctness_tests.suite.pages import (
    LATER,
    METRICS,
    NIGHT,
    YEAR,
    nights,
    regressed,
    run_of,
    wide_run,
)
from correctness_tests.suite.synthetic import ARMS
from fixtures.accounts import Account
from fixtures.report.gallery import pictures
from fixtures.report.pages import MAX_BYTES, Run, render_page
from fixtures.report.pages.headline import headline
from fixtures.report.pictures.style import Picture
from fixtures.report.trends import trends_of

pytestmark = pytest.mark.cpu

HOSTILE = "<script>alert(1)</script>"


def test_a_good_night_says_so() -> None:
    """Nothing moved: the banner is good and there is nothing to do."""
    head = headline(run_of())
    assert (head.state, head.verdict) == ("good", "Good: all 6 gated comparisons hold")
    assert (head.moved, head.advice, head.commands) == ([], ["Nothing to do."], [])


def test_a_bad_night_says_what_moved_and_what_to_do() -> None:
    """The arm and metric that moved, from what to what, who stayed, the stack that changed, the check to run alone."""
    head = headline(regressed())
    improved = "1 improved only because an arm got worse"
    assert (head.state, head.verdict) == ("bad", f"Bad: 1 regressed, {improved}, of 6 gated comparisons")
    assert head.moved[0] == "FSDP2: memory at rest +66.7%, from 2.000 GiB to 3.334 GiB"
    assert "DDP: memory at rest unchanged" in head.moved
    assert head.since == ["gpt2-rehearsal: fsdp2/ddp memory at rest shifted +66.7% on 3 May 2026, when torch changed"]
    assert head.advice[0].startswith("The stack is not the baseline's: torch 2.13.0 -> 2.14.1")
    assert head.commands[0] == ("run the worst check alone", "pytest perf_tests -m gpu -k 'fsdp2:ddp and resident'")
    assert "--accept gpt2-rehearsal/fsdp2:ddp/resident" in head.commands[1][1]


def test_an_upgrade_that_holds_is_named() -> None:
    """A good night on another stack than the baseline's says so: that is what an upgrade is watched for."""
    head = headline(run_of(replace(NIGHT, seed=1, stack=LATER)))
    assert head.state == "good"
    assert head.advice == ["The stack is not the baseline's (torch 2.13.0 -> 2.14.1), and the figures hold."]


def test_the_other_arms_slip_is_not_called_an_improvement() -> None:
    """No reshard looks better because FSDP2 got worse: nobody is told to look for something that costs less."""
    assert not [line for line in headline(regressed()).advice if "costs less" in line]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"failures": {"ddp": "rank 2 died"}}, "Bad: ddp: no launch"),
        ({"failed_checks": {"test_collectives": "too many"}}, "Bad: 1 other check failed"),
        ({"complaints": ["lost: a case"]}, "Bad: 1 complaint about the session"),
    ],
)
def test_a_session_that_fails_is_never_good(more: dict[str, Any], verdict: str) -> None:
    """All comparisons pass, and something else fails: the banner is bad and the page says what."""
    run = run_of(**more)
    assert (headline(run).state, headline(run).verdict) == ("bad", verdict)
    assert str(next(iter(more.values()))).split("'")[-2] in render_page(run)


def test_a_night_that_cannot_be_told_is_undecided() -> None:
    """Without a baseline, and with too few launches, the night is neither good nor bad."""
    bare = headline(run_of(baseline=None))
    assert (bare.state, bare.verdict) == ("undecided", "Undecided: 6 no baseline, of 6 gated comparisons")
    few = headline(run_of(replace(NIGHT, launches=2)))
    assert (few.state, few.verdict) == ("undecided", "Undecided: 6 inconclusive, of 6 gated comparisons")
    assert headline(Run([], [])).state == "undecided"


def test_a_drift_is_good_and_named() -> None:
    """2% more memory passes; the banner says that something moved, and what."""
    drifted = run_of(replace(NIGHT, arms={**ARMS, "ddp": ARMS["ddp"].scaled(peak=1.02)}))
    head = headline(drifted)
    assert head.state == "drifting"
    assert head.moved[0].startswith("DDP: peak memory +2.0%")


def test_figures_of_a_planted_fault_are_not_the_codes() -> None:
    """A patch on every rank is the first thing to say, and nothing is offered to accept."""
    slipped = replace(NIGHT, rank_patch="faults.x:apply", arms={**ARMS, "fsdp2": ARMS["fsdp2"].scaled(peak=2)})
    head = headline(run_of(slipped))
    assert head.advice[0].startswith("A fault was planted on every rank (faults.x:apply)")
    assert "--update-baselines" not in render_page(run_of(slipped))


class Document(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        self.tags.append((tag, dict(attrs)))

    def all(self, *names: str) -> list[dict[str, str | None]]:
        """Attributes of every tag of these names."""
        return [attributes for tag, attributes in self.tags if tag in names]


@pytest.fixture(scope="module")
def page() -> str:
    """The fullest page: everything that a run can have, and a user's hostile names in all of it."""
    run = regressed()
    hostile = [
        m.model_copy(update={"workload": m.workload.model_copy(update={"name": HOSTILE})}) for m in run.measurements
    ]
    drawn = pictures(replace(run, measurements=hostile))
    assert [p.name for p in drawn] == [
        "trend",
        "geometry",
        "memory",
        "knob",
        "scale",
        "bandwidth",
        "timeline-simulated",
    ]
    return render_page(
        replace(
            run,
            measurements=hostile,
            failures={HOSTILE: HOSTILE},
            failed_checks={HOSTILE: HOSTILE},
            complaints=[HOSTILE],
            notes=[HOSTILE],
            shifts=[HOSTILE],
            results=HOSTILE,
            command=["pytest", HOSTILE],
            traces=[HOSTILE, "javascript:alert(1)"],
            accounts=[Account(name=HOSTILE, unit="ms", ledger=1.0, note=HOSTILE)],
        ),
        drawn,
    )


def test_a_users_text_is_never_markup(page: str) -> None:
    """A model called <script> is text wherever it stands; no attribute of the page runs anything."""
    document = Document(page)
    assert page.count("&lt;script&gt;") > 10
    assert not document.all("script", "iframe", "object", "embed", "form", "base")
    assert not [name for _, attributes in document.tags for name in attributes if name.startswith("on")]
    hrefs = [str(attributes["href"]) for attributes in document.all("a")]
    assert all(href.startswith("#") or ":" not in href for href in hrefs)


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    """No address but XML's own namespace, nothing imported, and a policy that would refuse it."""
    assert set(re.findall(r"https?://[^\"' <)]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in page
    assert "default-src 'none'" in str(Document(page).all("meta"))


def test_every_image_and_header_is_named(page: str) -> None:
    """Each SVG has the role of an image and a name; each header of a table has its scope; no id is used twice."""
    document = Document(page)
    images = document.all("svg")
    assert images
    assert all(a.get("role") == "img" and (a.get("aria-label") or a.get("aria-labelledby")) for a in images)
    assert all(attributes.get("scope") for attributes in document.all("th"))
    ids = [attributes["id"] for _, attributes in document.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_shows_what_was_asked_for(page: str) -> None:
    """Accounts, bandwidths, environment with what differs, samples, links to traces, how to reproduce, pictures."""
    for heading in ("verdicts", "accounts", "bandwidth", "pictures", "environment", "samples", "reproduce"):
        assert f'<h2 id="{heading}">' in page
    assert "<mark>2.14.1</mark>" in page
    assert re.search(r"torch <span class=\"changed\">\(differs\)", page)
    assert "ranks of launch 5" in page
    assert "difference  +66.7%" in page  # the complete message


def test_a_page_without_pictures_stays_whole() -> None:
    """Pictures that would make the page larger than 2 MB are left out, the largest first, and named."""
    huge = Picture("huge", "A huge picture", "", f"<svg>{' ' * MAX_BYTES}</svg>")
    small = Picture("small", "A small picture", "", "<svg></svg>")
    text = render_page(run_of(), [huge, small])
    assert len(text.encode()) < MAX_BYTES
    assert "larger than 2 MB: A huge picture" in text
    assert "<svg></svg>" in text


def test_a_year_of_nights_fits() -> None:
    """365 nights x 40 metrics: a plot and a line of nights for each metric, and far from 2 MB."""
    run = replace(wide_run(METRICS), trends=trends_of(nights(YEAR, 7)))
    text = render_page(run)
    assert len(run.comparisons) >= METRICS
    assert text.count('class="plot"') >= METRICS
    assert len(text.encode()) < 1_000_000


def test_a_hundred_metrics_are_all_there() -> None:
    """102 comparisons, half of them failing: every one has its row, its plot and, where it fails, its message."""
    run = wide_run(100)
    text = render_page(run)
    assert text.count('class="case"') == len(run.comparisons) == 102
    assert text.count('id="why-') == sum(c.fails for c in run.comparisons) > 10
    assert len(text.encode()) < MAX_BYTES
