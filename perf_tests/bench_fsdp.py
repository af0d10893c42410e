"""The experiment's command line, under torchrun: train one arm, write its figures.

    torchrun --nproc-per-node 8 perf_tests/bench_fsdp.py --mode ddp --out results/night.csv
    torchrun --nproc-per-node 8 perf_tests/bench_fsdp.py --mode fsdp2 --out results/night.csv
    torchrun --nproc-per-node 8 perf_tests/bench_fsdp.py --mode fsdp2 --no-reshard --out results/night.csv
    pytest perf_tests -m gpu --from-results results --platform cuda-nccl-8--nvidia-h100

A ``.csv`` is appended to (the header once) and holds the experiment's columns; a ``.json`` is one launch with every
rank's samples and its provenance; in a folder each rank writes its own part of the launch, which is how several nodes
measure (docs/several-nodes.md). A verdict needs at least 3 launches of an arm. Exit status 2: bad input, one line on
stderr, nothing written.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # torchrun puts only perf_tests/ on the path

import torch.distributed as dist

from fixtures.errors import InvalidMeasurementError, UsageError
from fixtures.experiment import measurement_of
from fixtures.measurements import GIB, Measurement, Settings
from fixtures.meters.telemetry import watch_of_rank
from fixtures.platforms import Platform
from fixtures.report.csvfile import append_csv
from fixtures.report.parts import next_place, part_path
from fixtures.report.results import next_launch, save_measurement
from fixtures.training import Arm, RankReport, run_arm
from fixtures.workloads import resolve_workload


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; UsageError for options that contradict each other."""
    parser = argparse.ArgumentParser(prog="bench_fsdp.py", description="Train one arm and write its figures.")
    default = Settings()
    parser.add_argument("--mode", choices=["ddp", "fsdp1", "fsdp2"], required=True)
    parser.add_argument("--no-reshard", action="store_true", help="fsdp2: keep the blocks gathered after forward")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        required=True,
        help=".csv (appended to), .json (one launch), or a folder (a launch more, each rank writes its part)",
    )
    parser.add_argument("--workload", default="gpt2-large", metavar="NAME", help="default: %(default)s")
    parser.add_argument("--warmup-steps", type=int, default=default.warmup_steps, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=default.timed_steps, help="timed steps (default: %(default)s)")
    parser.add_argument("--precision", choices=["mixed", "fp32"], default="mixed", help="default: %(default)s")
    parser.add_argument("--device", choices=["accelerator", "cpu"], default="accelerator", help="default: %(default)s")
    options = parser.parse_args(arguments)
    if options.no_reshard and options.mode != "fsdp2":
        raise UsageError(f"--no-reshard belongs to --mode fsdp2, not {options.mode}: leave one of them out.")
    if options.out.suffix not in (".csv", ".json", "") or (options.out.suffix == "" and options.out.is_file()):
        raise UsageError(f"--out {options.out}: name a .csv or a .json file, or a folder.")
    if options.out.suffix == ".json" and options.out.exists():
        raise UsageError(f"--out {options.out} exists: a .json holds one launch; name another file.")
    for name in ("warmup_steps", "steps"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(options, name)} is too few: pass 1 or more.")
    return options


def open_platform(device: str) -> Platform:
    """Join the process group that torchrun describes in the environment."""
    if "WORLD_SIZE" not in os.environ:
        raise UsageError("no WORLD_SIZE in the environment: start it with torchrun --nproc-per-node N.")
    world_size = _count("WORLD_SIZE", os.environ["WORLD_SIZE"])
    local_size = _count("LOCAL_WORLD_SIZE", os.environ.get("LOCAL_WORLD_SIZE", str(world_size)))
    platform = Platform.cpu(world_size) if device == "cpu" else Platform.accelerator(world_size, per_node=local_size)
    store, rank, _ = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    platform.open_rank(rank, store)
    return platform


def _count(name: str, text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,6}", text):
        raise UsageError(f"the environment's {name} is {text[:40]!a}, not a number of ranks: start it with torchrun.")
    return int(text)


def write(measurement: Measurement, out: Path) -> str:
    """Write one launch as the suffix says; returns the line to print."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".csv":
        append_csv(out, [measurement])
    else:
        save_measurement(out, measurement)
    return (
        f"{measurement.strategy} on {measurement.platform.key}: resident {measurement.resident_bytes / GIB:.4g} GiB, "
        f"peak {measurement.peak_bytes / GIB:.4g} GiB, step {measurement.step_ms:.4g} ms, "
        f"{measurement.ktok_per_s:.4g} ktok/s -> {out}"
    )


def measure(arm: Arm, platform: Platform) -> RankReport:
    """Train the arm on this rank, which meanwhile looks at its own device."""
    watch = watch_of_rank(platform, dist.get_rank())
    with watch.launch([os.getpid()]):
        report = run_arm(arm, platform)
    return replace(report, telemetry=watch.take())


def write_part(report: RankReport, platform: Platform, arm: Arm, folder: Path) -> None:
    """Write what this rank measured to its own file; rank 0 says which launch it is, so that all ranks agree."""
    place: list[object] = [next_place(folder, arm.strategy)] if dist.get_rank() == 0 else [None]
    dist.broadcast_object_list(place)
    launch, order = cast(tuple[int, int], place[0])
    path = part_path(folder, arm.strategy, order, dist.get_rank())
    save_measurement(path, measurement_of([report], platform, arm, launch=launch, order=order))
    if dist.get_rank() == 0:
        print(f"launch {launch} of {arm.strategy} on {platform.key}: a file a rank -> {path.parent}")


def train(options: argparse.Namespace) -> None:
    """Train the arm on this rank; rank 0 collects every rank's report and writes."""
    strategy = options.mode + ("-noreshard" if options.no_reshard else "")
    settings = Settings(warmup_steps=options.warmup_steps, timed_steps=options.steps, precision=options.precision)
    arm = Arm(options.workload, strategy, settings)
    resolve_workload(arm.workload)
    platform = open_platform(options.device)
    try:
        report = measure(arm, platform)
        if not options.out.suffix:
            write_part(report, platform, arm, options.out)
            return
        reports: list[RankReport | None] = [None] * platform.world_size
        dist.all_gather_object(reports, report)
        if dist.get_rank() == 0:
            launch = next_launch(options.out.parent, strategy)
            complete = [report for report in reports if report is not None]
            print(write(measurement_of(complete, platform, arm, launch=launch, order=launch), options.out))
    finally:
        platform.close_rank()


def main(arguments: Sequence[str]) -> int:
    """Run; 0 when written, 2 for bad input or a meter that failed its control."""
    try:
        train(parse(arguments))
    except (UsageError, InvalidMeasurementError) as error:
        print(f"bench_fsdp.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: gloo's threads may outlive the group, and the interpreter's end then aborts ("terminate called").
    os._exit(status)
