"""Simulate the published machine and larger ones: print the tables of docs/simulation.md, or write them there.

``python -m perf_tests.simulate`` prints; ``--write`` renews the page's tables and its picture; ``--timelines FILE``
writes the three arms' simulated steps as JSON. It needs no GPU and takes some seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from fixtures.models import LARGE
from fixtures.recording import model_spec
from fixtures.report.__main__ import save_pictures
from fixtures.report.grids import filled, text_of
from fixtures.report.pictures.style import Picture
from fixtures.report.pictures.timeline import timeline as draw_timeline
from fixtures.report.simulation import DEFAULT, tables
from fixtures.simulation import published
from fixtures.simulation.rules import timeline
from fixtures.simulation.specs import ModelSpec, deepened
from fixtures.timelines import Span, Timeline
from fixtures.workloads import gpt2

PAGE = Path(__file__).resolve().parents[1] / "docs" / "simulation.md"
MICRO_BATCH = 4
TITLE = f"""\
GPT-2 Large, {MICRO_BATCH} x 1024 tokens a rank, on 8 x RTX PRO 6000 Blackwell; nothing is fitted.
What each table says, and where it is wrong: docs/{PAGE.name}
"""


def gpt2_large() -> ModelSpec:
    """The experiment's model: two blocks of it looked at, all 36 alike."""
    return deepened(model_spec(gpt2("gpt2-large", replace(LARGE, layers=2), MICRO_BATCH)), LARGE.layers)


def simulated_timelines(model: ModelSpec) -> list[Timeline]:
    """One step of each published arm as the simulation has it, with one communicator."""
    return [timeline(arm, published.place(arm, model, DEFAULT)) for arm in published.MEASURED_MS]


def picture(model: ModelSpec) -> Picture:
    """The three steps on one time axis."""
    steps = [joined(step) for step in simulated_timelines(model)]
    return draw_timeline(steps, "simulated-step", "One simulated step of each arm")


def joined(step: Timeline) -> Timeline:
    """The step with each unit's computation in one bar where copies alone part it: they are thinner than a line."""
    bars: list[Span] = []
    for span in step.spans:
        before = next((bar for bar in bars[::-1] if bar.lane == span.lane and bar.start_ms < bar.end_ms), None)
        if before is not None and _continues(span, before):
            bars[bars.index(before)] = before.model_copy(update={"end_ms": span.end_ms})
        else:
            bars.append(span)
    return step.model_copy(update={"spans": tuple(bars)})


def _continues(span: Span, before: Span) -> bool:
    if span.lane != "compute" or span.start_ms == span.end_ms or span.start_ms != before.end_ms:
        return False
    return span.kind == "copy-in" or (span.kind, span.unit) == (before.kind, before.unit)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.simulate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"renew the tables and the picture of docs/{PAGE.name}")
    parser.add_argument("--timelines", type=Path, metavar="FILE", help="write the arms' simulated steps as JSON")
    options = parser.parse_args(arguments)
    model = gpt2_large()
    found = tables(model)
    if options.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
        save_pictures(PAGE.parent / "pictures", [picture(model)])
    else:
        print("\n".join([TITLE, *map(text_of, found.values())]), end="")
    if options.timelines:
        options.timelines.parent.mkdir(parents=True, exist_ok=True)
        options.timelines.write_bytes(TypeAdapter(list[Timeline]).dump_json(simulated_timelines(model)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
