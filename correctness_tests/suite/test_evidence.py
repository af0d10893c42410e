"""Property: launches that explain name who holds and sends more, give lanes and a trace, and never cost a verdict."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fixtures.experiment import Plan
from fixtures.gate.holdings import Holdings, evidence_lines
from fixtures.inspection import inspect_arm
from fixtures.lanes import exposed_ms
from fixtures.measurements import Settings
from fixtures.platforms import Platform
from fixtures.ranks.pool import RankPool
from fixtures.session.evidence import Evidence
from fixtures.session.kept import Kept
from fixtures.torch_internals import allocations_of
from fixtures.training import Arm

pytestmark = pytest.mark.cpu

FAULTS = "correctness_tests.suite.faults"


@functools.cache
def held(fault: str = "") -> Holdings:
    """What fsdp2 holds and sends as one process plays rank 0 of 2."""
    patch = f"{FAULTS}.{fault}:apply" if fault else None
    with RankPool(Platform.solo(2), rank_patch=patch) as pool:
        seen = pool.run(inspect_arm, Arm("mlp", "fsdp2", Settings()))[0]
    assert seen.trace[:2] == b"\x1f\x8b"
    found: Holdings = seen.holdings
    return found


def plan(platform: Platform, rank_patch: str | None = None) -> Plan:
    """Of launches that are never judged."""
    return Plan(platform, "mlp", launches=3, settings=Settings(), rank_patch=rank_patch)


def test_a_clean_arm_holds_what_it_held() -> None:
    """The census of a steady step has the shards and the optimizer's state; nothing moves against itself."""
    assert {"parameters", "optimizer state"} <= held().resident.keys()
    assert {tally.kind for tally in held().collectives} == {"all-gather", "reduce-scatter"}
    assert "no buffer and no collective moved" in evidence_lines("fsdp2", "resident", held(), held())[0]


def test_a_leak_is_named_by_who_made_it() -> None:
    """A tensor that a patch of the optimizer keeps is told with the function that asked for it."""
    (line,) = evidence_lines("fsdp2", "resident", held("leak_in_every_step"), held())
    assert re.search(r"resident grew by [\d,]+ bytes: leak_in_every_step\.step \(aten\.zeros\.default\) \+", line)


def test_doubled_gathers_are_named() -> None:
    """Collectives that are issued twice are told with both counts."""
    lines = evidence_lines("fsdp2", "step", held("doubled_all_gather"), held())
    assert any(
        re.search(r"sends in a step (\d+) all-gather bfloat16 of .*, \d+ of .* in its baseline", x) for x in lines
    )


def test_profiled_ranks_give_lanes_and_a_trace(tmp_path: Path) -> None:
    """On real ranks each collective of the step is a bar, of its kind and unit, and what was exposed is said."""
    evidence = Evidence()
    (step,) = evidence.profile(plan(Platform.cpu(2)), ["fsdp2"], tmp_path, lambda line: None)
    sent = [span for span in step.spans if span.lane == "communication"]
    assert {span.kind for span in sent} == {"all-gather", "reduce-scatter"}
    assert all(0 <= exposed_ms(step, span) <= span.end_ms - span.start_ms + 1e-6 for span in sent)
    assert "" not in {span.unit for span in sent}
    assert {span.kind for span in step.spans if span.lane == "compute"} == {"forward", "backward", "optimizer"}
    assert (tmp_path / "traces" / "fsdp2.trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert evidence.notes[0].startswith("overlap, fsdp2: ")


def test_cudas_allocator_is_asked_for_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step runs while allocations are recorded, the snapshot is what was dumped, and recording ends."""
    told: list[object] = []
    memory = SimpleNamespace(
        _record_memory_history=lambda **options: told.append(options),
        _dump_snapshot=lambda path: Path(path).write_bytes(b"snapshot"),
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory", memory)
    assert allocations_of(lambda: told.append("step")) == b"snapshot"
    assert told == [{"max_entries": 100_000}, "step", {"enabled": None}]


def test_without_cuda_there_is_no_snapshot() -> None:
    """No step is taken for it either."""
    assert allocations_of(lambda: pytest.fail("a step was taken")) == b""


def test_a_launch_that_fails_costs_nothing() -> None:
    """Ranks that die under the profiler are a line at the end, and no lanes."""
    evidence = Evidence()
    assert (
        evidence.profile(plan(Platform.solo(2), f"{FAULTS}.nonesuch:apply"), ["fsdp2"], None, lambda line: None) == []
    )
    (note,) = evidence.notes
    assert note.startswith("no profile of fsdp2, which costs no verdict: rank patch")


@pytest.mark.parametrize(("refused", "made"), [((), 1), (("a case",), 0)], ids=["granted", "refused"])
def test_a_refused_update_leaves_no_summary(
    refused: tuple[str, ...], made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an arm holds is kept beside a baseline that was accepted, and not beside one that was refused."""
    asked: list[object] = []
    monkeypatch.setattr(Evidence, "summarize", lambda *arguments: asked.append(arguments))
    options = SimpleNamespace(update="asked", dry_run=False, baselines=Path("accepted"), from_results=())
    proposal = SimpleNamespace(refused=refused)
    given = {"options": options, "proposal": proposal, "measurements": ["a launch"], "say": None, "kept": Kept()}
    job: Any = SimpleNamespace(**given)
    Evidence().follow(job, lambda: plan(Platform.cpu(2)), [])
    assert len(asked) == made
