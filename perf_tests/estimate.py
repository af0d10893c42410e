"""How long a nightly takes on 8 GPUs, from the published step times and a launch's start-up: every term, in seconds.

    python -m perf_tests.estimate                     # --startup-s 20: what starting 8 ranks takes on your node

A launch forks 8 processes from one that has torch in memory, opens NCCL, builds GPT-2 Large and takes 23 steps: 5
warm-up, 15 timed, 3 inspected. Two terms of its start-up are measured, on a CPU; the others are assumptions, each with
what it rests on, until someone starts ranks on 8 GPUs. So the last line says how long a start may take.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from fixtures.bandwidth import PUBLISHED, Message
from fixtures.experiment import LARGEST_MESSAGE
from fixtures.ledger.messages import messages_of
from fixtures.ledger.published import COMPUTE_MS, DDP_MS, GPT2_LARGE_PSI, NO_RESHARD_MS
from fixtures.ledger.shapes import FP32
from fixtures.measurements import ALONE, ARMS, SELDOM, Settings
from fixtures.meters.bandwidth import LAPS, WARM_UP
from fixtures.report.pictures.knob import FSDP2_MS

STEP_MS = dict(zip(ARMS, (float(DDP_MS), FSDP2_MS, FSDP2_MS - NO_RESHARD_MS), strict=True))
"""The published step of each arm."""
LIKE_FSDP2_MS, ALONE_MS = FSDP2_MS, float(COMPUTE_MS)
"""Of the arms beside those three: FSDP1 sends FSDP2's messages, and no step of its was published; one GPU's was."""
STARTUP_S = {
    "8 ranks forked, their group opened, controls read": 1.4,  # measured: gloo, 2 busy cores
    "GPT-2 Large built on one thread of each": 4.3,  # measured: CPU time of one; the next term has what 8 at once add
    "8 at once on one memory; 3.1 GB to each device": 2.0,  # assumed
    "CUDA contexts, first kernels": 3.0,  # assumed; pytorch forum 82521 has 2 s and more for a first move to a device
    "NCCL communicators": 6.0,  # assumed; 2.6 s without its kernels in a log of 8 B200 (nccl issue 1646), where loading
    # those took 52 s; NCCL's maintainers call 5 to 6 s a lot more than it should be (nccl issue 534)
}
"""What a start of 8 ranks is made of."""
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


def extra_terms(launches: int, startup_s: float) -> dict[str, float]:
    """Seconds of the arms on top: FSDP1 as often as the others and profiled once, the arm alone three times."""
    settings, alone = Settings(), SELDOM[ALONE]
    steps = settings.warmup_steps + settings.timed_steps + settings.inspected_steps
    return {
        f"fsdp1: {launches + 1} starts, {steps} steps each": (launches + 1) * (startup_s + steps * LIKE_FSDP2_MS / 1e3),
        f"{ALONE}: {alone} starts, {steps} steps each": alone * (startup_s + steps * ALONE_MS / 1e3),
    }


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
    parser.add_argument(
        "--startup-s",
        type=float,
        default=sum(STARTUP_S.values()),
        help="seconds to start 8 ranks (default %(default)g)",
    )
    asked = parser.parse_args(arguments)
    found, more = (of(asked.launches, asked.startup_s) for of in (terms, extra_terms))
    total = sum(found.values())
    room = (BOUND_S - sum(terms(asked.launches, 0.0).values())) / starts(asked.launches)
    _print(found, "together", 0.0)
    print()
    _print(more, "with these arms too", total)
    if asked.startup_s == sum(STARTUP_S.values()):
        print()
        _print(STARTUP_S, "a start of 8 ranks", 0.0)
    print()
    print(f"A start of up to {room:.0f} s keeps a night of {asked.launches} launches under {BOUND_S / 60:g} minutes.")
    return int(total > BOUND_S)


def _print(terms: Mapping[str, float], name: str, before: float) -> None:
    total = before + sum(terms.values())
    for term, seconds in {**terms, name: total}.items():
        print(f"{term:<52}{seconds:8.1f} s" + f" = {total / 60:.1f} min" * (term == name and total > 60))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
