"""The pictures of docs/images: the experiment's own model and N, from closed forms and the simulation.

``python -m perf_tests.pictures --out docs/images`` draws them anew; no launch is needed, and no GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fixtures import ledger
from fixtures.drawn_steps import simulated_steps
from fixtures.ledger.published import RESIDENT_GIB, WORLD_SIZE
from fixtures.measurements import ARMS, GIB, WorkloadRecord
from fixtures.report.__main__ import save_pictures
from fixtures.report.pictures.geometry import geometry
from fixtures.report.pictures.memory import Held, memory_bars
from fixtures.report.pictures.scale import scale
from fixtures.report.pictures.style import Picture
from fixtures.report.pictures.timeline import timeline
from fixtures.workloads import describe, resolve_workload

WORKLOAD = "gpt2-large"
WHERE = f"{WORKLOAD} on {WORLD_SIZE} ranks"


def closed_forms(workload: WorkloadRecord) -> list[Picture]:
    """Geometry, memory at rest (published beside the ledger) and scale."""
    units = workload.unit_shapes
    held = [
        Held(arm, "resident, as published", gib * GIB, ledger.resident_buffers(arm, units, WORLD_SIZE, rank=0))
        for arm, gib in RESIDENT_GIB.items()
    ]
    return [
        geometry(workload.units[0], WORLD_SIZE, WORKLOAD),
        memory_bars(held, f"Memory of {WHERE}: as published, and what its buffers add up to"),
        scale(workload, WORLD_SIZE, {}, published=True),
    ]


def simulated() -> Picture:
    """One step of each arm on the published machine."""
    return timeline(simulated_steps(WORKLOAD, ARMS), what=f"One step of {WHERE}, simulated on the published machine")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw all of them into a folder."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.pictures", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path("docs/images"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    save_pictures(options.out, [*closed_forms(describe(resolve_workload(WORKLOAD))), simulated()])


if __name__ == "__main__":
    main()
