"""Every kind of night, stored and judged end to end by ``--from-results``, gets its verdict and names the right arm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from correctness_tests.suite.judging import NIGHT, Judge, judge, slipped
from fixtures.measurements import Measurement, Stack
from fixtures.report.results import save_results

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

OK, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
OLD = Stack(torch="2.13.0", python="3.11.9", nccl="2.28.3")
NEW = Stack(torch="2.13.0", python="3.11.9", nccl="2.29.1")


@dataclass(frozen=True)
class Recorded:
    """A set of samples, the exit status it must get, what must be said (spaces single), and what must not."""

    samples: list[Measurement]
    status: pytest.ExitCode
    said: tuple[str, ...]
    unsaid: tuple[str, ...] = ()


def again() -> list[Measurement]:
    """Another night of the same code."""
    return replace(NIGHT, seed=1).measurements()


def straggling(rank: int, arm: str) -> list[Measurement]:
    """One rank takes 40% longer for a known computation in every launch of an arm, and the arm's steps 12% longer."""
    made = []
    for m in slipped(arm, step=1.12).measurements():
        slow = [10.0 * (1.4 if m.strategy == arm and r.rank == rank else 1.0) for r in m.ranks]
        ranks = [r.model_copy(update={"known_work_ms": ms}) for r, ms in zip(m.ranks, slow, strict=True)]
        made.append(m.model_copy(update={"ranks": ranks}))
    return made


def without_rank(rank: int, launch: int) -> list[Measurement]:
    """One rank's samples are missing from one launch."""
    made = again()
    made[launch] = made[launch].model_copy(update={"ranks": [r for r in made[launch].ranks if r.rank != rank]})
    return made


def upgraded(arms: tuple[str, ...] = ("ddp", "fsdp2", "fsdp2-noreshard")) -> list[Measurement]:
    """These arms ran on another NCCL than the others."""
    return [
        m.model_copy(
            update={"provenance": m.provenance.model_copy(update={"stack": NEW if m.strategy in arms else OLD})}
        )
        for m in again()
    ]


NIGHTS = {
    "A/A": Recorded(again(), OK, ("PASS",), ("REGRESSED", "IMPROVED", "INVALID")),
    "+12% step": Recorded(
        slipped("fsdp2", step=1.12).measurements(),
        FAILED,
        ("REGRESSED gpt2-rehearsal/fsdp2:ddp/step", "moved ddp unchanged", "FSDP2 takes more time a step than it did"),
        ("REGRESSED gpt2-rehearsal/fsdp2:ddp/peak",),
    ),
    "-12% step": Recorded(
        slipped("fsdp2", step=0.88).measurements(),
        FAILED,
        ("IMPROVED gpt2-rehearsal/fsdp2:ddp/step", "moved ddp unchanged", "FSDP2 takes less time a step than it did"),
        ("REGRESSED gpt2-rehearsal/fsdp2:ddp",),
    ),
    "+2% memory": Recorded(
        slipped("fsdp2", peak=1.02).measurements(),
        OK,
        ("* gpt2-rehearsal/fsdp2:ddp/peak", "+2.0%"),
        ("REGRESSED", "* gpt2-rehearsal/fsdp2:ddp/resident"),
    ),
    "one straggler": Recorded(
        straggling(5, "fsdp2"),
        FAILED,
        ("INVALID gpt2-rehearsal/fsdp2:ddp/step", "rank 5 is a straggler", "(fsdp2 +40%; a straggler from +20%)"),
        ("REGRESSED",),
    ),
    "one missing rank": Recorded(
        without_rank(6, launch=4),
        FAILED,
        ("INVALID gpt2-rehearsal/fsdp2:ddp/step", "of fsdp2 has samples of ranks [0, 1, 2, 3, 4, 5, 7], not of all 8"),
        ("REGRESSED", "PASS"),
    ),
    "another NCCL": Recorded(upgraded(), OK, ("PASS", "nccl 2.29.1"), ("REGRESSED", "INVALID")),
    "another NCCL in one arm": Recorded(
        upgraded(("ddp",)),
        FAILED,
        ("INVALID gpt2-rehearsal/fsdp2:ddp/step", "INVALID: launches of different stacks", "nccl 2.29.1"),
        ("REGRESSED", "INVALID gpt2-rehearsal/fsdp2-noreshard:fsdp2"),
    ),
}


@pytest.mark.parametrize("name", NIGHTS)
def test_each_night_gets_its_verdict(judge: Judge, name: str) -> None:
    """Exit status, verdict and the arm (or rank) that is named are those of what was planted, and no other."""
    night = NIGHTS[name]
    save_results(judge.results, night.samples)
    result = judge.judge()
    text = " ".join(result.stdout.str().split())
    assert result.ret == night.status, text
    for part in night.said:
        assert part in text, (part, text)
    for part in night.unsaid:
        assert part not in text, (part, text)
