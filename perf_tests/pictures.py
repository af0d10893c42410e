"""The pictures of docs/pictures from closed forms: the experiment's own model and N.

``python -m perf_tests.pictures`` draws them anew; it launches nothing and needs no GPU. Its step is drawn by
``python -m perf_tests.simulate --write``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fixtures import ledger
from fixtures.ledger.published import RESIDENT_GIB, WORLD_SIZE
from fixtures.measurements import GIB, WorkloadRecord
from fixtures.report.__main__ import save_pictures
from fixtures.report.pictures.geometry import geometry
from fixtures.report.pictures.memory import Held, memory_bars
from fixtures.report.pictures.scale import scale
from fixtures.report.pictures.style import Picture
from fixtures.workloads import describe, resolve_workload

WORKLOAD = "gpt2-large"
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def closed_forms(workload: WorkloadRecord) -> list[Picture]:
    """Geometry, memory at rest (as published, above the ledger's buffers) and scale."""
    units = workload.unit_shapes
    held = [
        Held(arm, "resident", gib * GIB, ledger.resident_buffers(arm, units, WORLD_SIZE, rank=0))
        for arm, gib in RESIDENT_GIB.items()
    ]
    where = f"{WORKLOAD} on {WORLD_SIZE} ranks"
    return [
        geometry(workload.units[0], WORLD_SIZE, WORKLOAD),
        memory_bars(held, f"Memory of {where}: measured as published, and what its buffers add up to"),
        scale(workload, WORLD_SIZE, {}, published=True),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw all of them into a folder."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.pictures", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, metavar="DIR", default=FOLDER, help="default: docs/pictures")
    save_pictures(parser.parse_args(arguments).out, closed_forms(describe(resolve_workload(WORKLOAD))))


if __name__ == "__main__":
    main()
