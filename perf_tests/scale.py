"""GPT-2 Large from 8 to 65,536 ranks: what a rank holds and sends, what does not shrink, what the host does.

    python -m perf_tests.scale                  # prints the tables
    python -m perf_tests.scale --out docs       # and writes them into docs/scale.md, the picture into docs/pictures

All figures are the ledger's; up to N = 4,096 they are read as well, on fake tensors in one process, and the command
fails (exit status 1, nothing written) where a byte differs. Minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from fixtures import ledger
from fixtures.errors import InvalidMeasurementError, UsageError
from fixtures.full_size import FullSize, read_full_size
from fixtures.report.grids import Grid, filled, text_of
from fixtures.report.pictures.padding import padding
from fixtures.report.scale import count_table, rest_table, step_table, takeover_table
from fixtures.scaling import Scale, scale, takeovers
from fixtures.workloads import build_cheaply, resolve_workload, unit_shapes
from perf_tests.scale_counts import count_step, count_wrap

WORKLOAD = "gpt2-large"
SIZES = (8, 64, 512, 4096, 65536)
READ = (8, 64, 512, 4096)
"""Wrapping at 65,536 ranks would make 57 million tensors."""
MOST = SIZES[-1]
COUNTED = "perf_tests.scale_counts:one_block"
STEPPED = "gpt2-rehearsal"
CURVE = tuple(2**i for i in range(3, 17))


@dataclass(frozen=True)
class Model:
    """The shapes of a workload's units."""

    blocks: list[list[tuple[int, ...]]]
    root: list[tuple[int, ...]]

    def at(self, world_size: int) -> Scale:
        """The ledger's figures at this world size."""
        return scale(self.blocks, self.root, world_size)


def model_of(workload: str = WORKLOAD) -> Model:
    """The shapes, from the meta device."""
    found = resolve_workload(workload)
    return Model(*unit_shapes(found, build_cheaply(found)))


def activation_bytes(reading: FullSize) -> int:
    """What is alive at the peak of a step besides shards, their state and the root: the same at every N and rank."""
    return reading.peak_bytes - _known_peak(reading)


def check(reading: FullSize, activations: int) -> None:
    """Resident and peak are the ledger's, to the byte; InvalidMeasurementError says how far they are off."""
    known = {
        "resident": (reading.resident_bytes - reading.held_bytes, sum(_buffers(reading).values())),
        "peak": (reading.peak_bytes, _known_peak(reading) + activations),
    }
    for name, (measured, expected) in known.items():
        if measured != expected:
            raise InvalidMeasurementError(
                f"{name}, {reading.where}: measured {measured:,} bytes, the ledger says {expected:,}, difference "
                f"{measured - expected:+,}. What docs/scale.md says is not so: nothing is written. "
                "perf_tests/test_gpt2_large.py asks the same at N = 8, buffer by buffer."
            )


def _buffers(reading: FullSize) -> dict[str, int]:
    return ledger.resident_buffers(reading.strategy, reading.units, reading.world_size, reading.rank)


def _known_peak(reading: FullSize) -> int:
    """Where backward begins the root is whole; in a first step AdamW's moments and steps come after that."""
    buffers = _buffers(reading)
    later = buffers["moments"] + buffers["steps"] if reading.steps == 1 else 0
    return sum(buffers.values()) - later + ledger.gather_bytes(reading.root, reading.world_size, "mixed")


def tables(model: Model, activations: int) -> dict[str, Grid]:
    """The tables that the ledger makes, by the name of their place in docs/scale.md."""
    rows = [model.at(size) for size in SIZES]
    return {
        "rest": rest_table(rows, READ),
        "step": step_table(rows, activations, READ),
        "padding": takeover_table(takeovers(model.blocks, model.root, MOST), MOST),
    }


def host_tables(sizes: Sequence[int] = READ) -> dict[str, Grid]:
    """The tables of counts."""
    wraps = {size: count_wrap(COUNTED, "fsdp2", size) for size in sizes}
    steps = {
        size: [count_step(STEPPED, strategy, size) for strategy in ("fsdp2", "fsdp1")] for size in sizes if size <= 512
    }
    return {
        "wrapping": count_table(
            f"what wrapping {COUNTED.partition(':')[2]} costs the host, by world size N",
            ("tensors", "operators", "Python calls"),
            {n: (c.tensors, c.operators, c.calls) for n, c in wraps.items()},
        ),
        "stepping": count_table(
            f"what a step of {STEPPED} costs the host, by world size N",
            tuple(f"{arm}: {what}" for arm in ("fsdp2", "fsdp1") for what in ("tensors", "operators", "Python calls")),
            {n: [x for c in counts for x in (c.tensors, c.operators, c.calls)] for n, counts in steps.items()},
        ),
    }


def read_all() -> tuple[int, dict[int, int]]:
    """Read the first and the last rank at each size; the activations, and rank 0's bytes at rest by world size."""
    reading = read_full_size(WORKLOAD, "fsdp2", READ[0])
    activations = activation_bytes(reading)
    check(reading, activations)
    measured = {READ[0]: reading.resident_bytes - reading.held_bytes}
    for size in READ[1:]:
        for rank in (0, size - 1):
            reading = read_full_size(WORKLOAD, "fsdp2", size, rank, steps=1)
            check(reading, activations)
            if rank == 0:
                measured[size] = reading.resident_bytes - reading.held_bytes
        print(f"N = {size}: read, to the byte", file=sys.stderr)
    return activations, measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, print and write; 0, or 1 for figures that are not the ledger's, or 2 for a folder without the page."""
    parser = argparse.ArgumentParser(prog="scale", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder with scale.md, to be rewritten; and pictures/")
    out: Path | None = parser.parse_args(arguments).out
    torch.set_num_threads(1)
    try:
        if out is not None and not (out / "scale.md").is_file():
            raise UsageError(f"--out {out}: there is no scale.md in it; name the folder docs.")
        activations, measured = read_all()
        model = model_of()
        parts = tables(model, activations) | host_tables()
        print("\n".join(map(text_of, parts.values())))
        if out is not None:
            write(out, parts, model, measured)
    except (UsageError, InvalidMeasurementError) as error:
        print(f"scale: {error}", file=sys.stderr)
        return 1 if isinstance(error, InvalidMeasurementError) else 2
    return 0


def write(out: Path, parts: dict[str, Grid], model: Model, measured: dict[int, int]) -> None:
    """Fill the page and draw the picture."""
    page = out / "scale.md"
    text = filled(page.read_text(encoding="utf-8"), parts)
    (out / "pictures").mkdir(exist_ok=True)
    picture = padding("GPT-2 Large", [model.at(size) for size in CURVE], measured)
    (out / "pictures" / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
