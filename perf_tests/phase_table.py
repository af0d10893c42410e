"""What a strategy itself holds in each phase of a step, for any workload and N, from the ledger: a table, no training.

``python -m perf_tests.phase_table --workload gpt2-large --world-size 8`` prints GiB of the largest rank, without what
is the model's own: activations, autocast's copies of parameters, the batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fixtures import ledger
from fixtures.ledger import Moment
from fixtures.ledger.alone import largest_moments
from fixtures.measurements import GIB
from fixtures.report.grids import Grid, text_of
from fixtures.report.text import noted
from fixtures.workloads import build_cheaply, resolve_workload, unit_shapes
from perf_tests.budgets import ARMS


def tables(workload_name: str, world_size: int) -> tuple[Grid, list[str]]:
    """Rows of phases, columns of arms, GiB; then a line an arm, what it holds at the peak of backward."""
    workload = resolve_workload(workload_name)
    blocks, root = unit_shapes(workload, build_cheaply(workload))
    columns = {arm: largest_moments(arm, blocks, root, world_size) for arm in ARMS}
    rows = [[phase, *(f"{moments[phase].bytes / GIB:.3f}" for moments in columns.values())] for phase in ledger.PHASES]
    peaks = [
        f"- {arm}, {(peak := moments['peak_backward']).where}: {_buffers(peak)}" for arm, moments in columns.items()
    ]
    return Grid(
        "what the largest rank holds, by phase", [f"GiB, {workload.name}, N = {world_size}", *columns], rows
    ), peaks


def _buffers(moment: Moment) -> str:
    """Buffers in GiB, the largest first; those that round to nothing are left out."""
    sizes = sorted(((size / GIB, name) for name, size in moment.buffers.items()), reverse=True)
    return ", ".join(f"{name} {size:.3f}" for size, name in sizes if size >= 0.0005)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.phase_table", description=__doc__)
    parser.add_argument(
        "--workload", default="gpt2-large", metavar="NAME", help="registered, or package.module:factory"
    )
    parser.add_argument("--world-size", type=int, default=8, metavar="N", help="ranks, 2 or more (default: 8)")
    options = parser.parse_args(arguments)
    grid, peaks = tables(options.workload, options.world_size)
    print(text_of(grid))
    print("The peak of backward, GiB by buffer:")
    print("\n".join(line for peak in peaks for line in noted(peak)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
