"""How long a nightly takes on 8 GPUs, from the published step times and a launch's start-up: every term, in seconds.

    python -m perf_tests.estimate                     # --startup-s 20: what starting 8 ranks takes on your node

A launch starts 8 processes that import torch, open NCCL and build GPT-2 Large, and takes 23 steps: 5 warm-up, 15 timed,
3 inspected. Nobody has measured the start-up on 8 GPUs yet, so the last line says how long it may take.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fixtures.bandwidth import PUBLISHED, Message
from fixtures.experiment import LARGEST_MESSAGE
from fixtures.ledger.messages import messages_of
from fixtures.ledger.published import DDP_MS, GPT2_LARGE_PSI, NO_RESHARD_MS
from fixtures.ledger.shapes import FP32
from fixtures.measurements import ARMS, Settings
from fixtures.meters.bandwidth import LAPS, WARM_UP
from fixtures.report.pictures.knob import FSDP2_MS

STEP_MS = dict(zip(ARMS, (float(DDP_MS), FSDP2_MS, FSDP2_MS - NO_RESHARD_MS), strict=True))
"""The published step of each arm."""
BOUND_S = 15 * 60.0
JUDGING_S = 30.0
"""Collection, the workload's trial, timelines, verdicts and page: 27 s on 2 busy cores in rehearsal, rounded up."""


def terms(launches: int, startup_s: float) -> dict[str, float]:
    """Seconds of a nightly by what they are for."""
    settings = Settings()
    steps = settings.warmup_steps + settings.timed_steps + settings.inspected_steps
    step_s = {arm: steps * ms / 1e3 for arm, ms in STEP_MS.items()}
    found = {f"{launches} x {steps} steps of {arm}": launches * seconds for arm, seconds in step_s.items()}
    found[f"1 profiled launch of each arm, {steps} steps"] = sum(step_s.values())
    sweep = messages_of([], 8, "mixed", LARGEST_MESSAGE[False])
    own = Message(kind="all-reduce", dtype="float32", bytes=FP32 * GPT2_LARGE_PSI)
    found["bandwidth table: sweep, all gradients"] = (WARM_UP + LAPS) * sum(map(_seconds, [*sweep, own]))
    found[f"{starts(launches)} starts of 8 ranks, {startup_s:g} s each"] = starts(launches) * startup_s
    found["collection, verdicts, page"] = JUDGING_S
    return found


def starts(launches: int) -> int:
    """How often ranks are started: each launch, a profiled one of each arm, the bandwidth table."""
    return launches * len(ARMS) + len(ARMS) + 1


def _seconds(message: Message) -> float:
    """At the published bandwidths; a reduce-scatter, of which none was published, as an all-gather."""
    return PUBLISHED.seconds("all-reduce" if message.kind == "all-reduce" else "all-gather", message.bytes)


def main(arguments: Sequence[str]) -> int:
    """Print the terms, their sum, and the start-up that the bound leaves room for; status 1 beyond the bound."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.estimate", description="How long a nightly takes.")
    parser.add_argument("--launches", type=int, default=6, help="launches of each of the 3 arms (default 6)")
    parser.add_argument("--startup-s", type=float, default=20.0, help="seconds to start 8 ranks (default 20)")
    asked = parser.parse_args(arguments)
    found = terms(asked.launches, asked.startup_s)
    total = sum(found.values())
    room = (BOUND_S - sum(terms(asked.launches, 0.0).values())) / starts(asked.launches)
    for name, seconds in found.items():
        print(f"{name:<45}{seconds:8.1f} s")
    print(f"{'together':<45}{total:8.1f} s = {total / 60:.1f} min")
    print(f"A start of up to {room:.0f} s keeps a night of {asked.launches} launches under {BOUND_S / 60:g} minutes.")
    return int(total > BOUND_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
