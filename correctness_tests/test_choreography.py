"""FSDP2's choreography: what is gathered, freed and reduced when, from the order of events themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from correctness_tests.timeline import (
    WIDTH,
    Stage,
    as_fsdp,
    nested,
    record,
    shard_all,
    stages,
    three_blocks,
)

pytestmark = pytest.mark.cpu

BLOCKS = ("0", "1", "2")


def used_twice() -> Stage:
    """A root that runs its block 0 again after block 2."""
    return three_blocks(order=[0, 1, 2, 0])


def recomputed() -> Stage:
    """A root that checkpoints each of its blocks."""
    root = three_blocks()
    root.recompute = True
    return root


MODELS = {"flat": three_blocks, "nested": nested, "used twice": used_twice, "recomputed": recomputed}


def shard_with(reshard: bool | int | None) -> Callable[[Stage, DeviceMesh], Stage]:
    """Shard every unit with this ``reshard_after_forward``."""
    return lambda root, mesh: shard_all(root, mesh, reshard)


def shard_with_prefetch(root: Stage, mesh: DeviceMesh) -> None:
    """Shard, and ask that each block's pre-forward gather the block after it."""
    shard_all(root, mesh)
    for block, following in pairwise(root.inside):
        as_fsdp(block).set_modules_to_forward_prefetch([as_fsdp(following)])  # type: ignore[arg-type]


def evaluate(root: Stage) -> None:
    """One forward, no backward."""
    with torch.no_grad():
        root(torch.ones(2, WIDTH))


def expect(holds: bool, claim: str, log: Sequence[str]) -> None:
    """Fail with the claim and the whole timeline."""
    assert holds, (
        f"rank 0 of 4: expected that {claim}; measured, in order: {'; '.join(log)}. "
        "The schedule of fully_shard has changed: look at its release notes, then run perf_tests -m cpu for the bytes."
    )


def forward_part(log: Sequence[str]) -> list[str]:
    """The events before the first backward computation, without the gathers that backward has begun with."""
    return list(log[: log.index("use root") + 1])


def backward_part(log: Sequence[str]) -> list[str]:
    """The events after the root's forward computation."""
    return list(log[log.index("use root") + 1 :])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reshard", [None, True, False, 2])
def test_every_use_finds_its_parameters_gathered(model: str, reshard: bool | int | None) -> None:
    """In forward and in backward a unit's whole parameters are there when its computation begins."""
    log = record(MODELS[model](), shard_with(reshard))
    expect(not any("WITHOUT" in event for event in log), "no unit computes without its parameters", log)


def test_forward_gathers_each_block_only_when_its_turn_comes() -> None:
    """With nothing asked for, a block's gather is issued after the block before it was used, and in order."""
    forward = forward_part(log := record(three_blocks()))
    order = [event for event in forward if event.startswith(("gather", "use"))]
    wanted = ["gather root", "gather 0", "use 0", "gather 1", "use 1", "gather 2", "use 2", "use root"]
    expect(order == wanted, f"forward runs {wanted}", log)


def test_forward_prefetch_gathers_the_next_block_before_this_one_computes() -> None:
    """Asked to prefetch, a block's pre-forward issues the next block's gather before its own computation."""
    forward = forward_part(log := record(three_blocks(), shard_with_prefetch))
    order = [event for event in forward if event.startswith(("gather", "use"))]
    wanted = ["gather root", "gather 0", "gather 1", "use 0", "gather 2", "use 1", "use 2", "use root"]
    expect(order == wanted, f"forward runs {wanted}", log)


def test_a_block_is_freed_right_after_its_forward() -> None:
    """When resharding after forward, the very next event after a block's use is that its parameters are freed."""
    log = record(three_blocks())
    for block in BLOCKS:
        after = log[log.index(f"use {block}") + 1]
        expect(after == f"free {block}", f"use {block} is followed by free {block}", log)


def test_without_reshard_a_block_is_kept_until_its_backward() -> None:
    """With reshard_after_forward False a block is freed once, after its backward, and gathered once, in forward."""
    log = record(three_blocks(), shard_with(False))
    for block in (*BLOCKS, "root"):
        expect(log.count(f"gather {block}") == 1, f"unit {block} is gathered once", log)
        expect(log.count(f"free {block}") == 1, f"unit {block} is freed once", log)
        expect(log.index(f"free {block}") > log.index(f"grad {block}"), f"unit {block} is freed after backward", log)


def test_backward_gathers_the_previous_block_before_it_reduces_this_one() -> None:
    """In backward the gather of block k - 1 is in flight before block k's gradients are computed, so also reduced."""
    backward = backward_part(log := record(three_blocks()))
    for before, block in pairwise(BLOCKS):
        issued = backward.index(f"gather {before}")
        expect(issued < backward.index(f"grad {block}"), f"gather {before} comes before grad {block}", log)
        expect(issued < backward.index(f"reduce {block}"), f"gather {before} comes before reduce {block}", log)


def test_backward_frees_a_block_before_it_reduces_its_gradients() -> None:
    """After its backward a block's parameters are freed before the reduce-scatter takes its buffers."""
    backward = backward_part(log := record(three_blocks()))
    for block in BLOCKS:
        after = backward[backward.index(f"grad {block}") + 1 :][:2]
        expect(after == [f"free {block}", f"reduce {block}"], f"grad {block} is followed by its free and reduce", log)


@pytest.mark.parametrize("model", MODELS)
def test_each_unit_reduces_its_gradients_once(model: str) -> None:
    """One reduce-scatter a unit and step, a unit that is used twice or recomputed included."""
    log = record(root := MODELS[model]())
    for stage in stages(root):
        expect(log.count(f"reduce {stage.name}") == 1, f"unit {stage.name} is reduced once", log)


@pytest.mark.parametrize("model", MODELS)
def test_each_use_gathers_its_unit_once(model: str) -> None:
    """When resharding, a unit is gathered once for each use in forward and once for each backward, never again.

    The root is not resharded, so once in all. Activation checkpointing recomputes inside one gather.
    """
    log = record(root := MODELS[model]())
    for stage in stages(root):
        wanted = 1 if stage is root else 2 * log.count(f"use {stage.name}")
        found = log.count(f"gather {stage.name}")
        expect(found == wanted, f"unit {stage.name} is gathered {wanted} times, not {found}", log)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reshard", [None, True, False, 2])
def test_nothing_is_left_gathered_after_the_step(model: str, reshard: bool | int | None) -> None:
    """After backward every unit's last event with its storage is that it was freed, as often as it was filled."""
    log = record(root := MODELS[model](), shard_with(reshard))
    for stage in stages(root):
        kept = [event for event in log if event in (f"fill {stage.name}", f"free {stage.name}")]
        balanced = kept == [f"fill {stage.name}", f"free {stage.name}"] * (len(kept) // 2)
        expect(bool(kept) and balanced, f"unit {stage.name} is filled and freed in turn, freed last", log)


def test_nested_units_are_freed_from_the_inside() -> None:
    """An inner unit is gathered within its outer one and freed before it, in forward and in backward."""
    log = record(nested())
    for part in (forward_part(log), backward_part(log)):
        for outer in ("0", "1"):
            first, last = part.index(f"fill {outer}"), part.index(f"free {outer}")
            inside = part.index(f"fill {outer}.inner"), part.index(f"free {outer}.inner")
            expect(first < inside[0] < inside[1] < last, f"unit {outer} holds {outer}.inner's life", log)


def test_hsdp_reduces_over_replicas_right_after_each_reduce_scatter() -> None:
    """On a 2-D mesh each unit's reduce-scatter is followed at once by one all-reduce of the shard over replicas."""
    log = record(
        root := three_blocks(),
        mesh=lambda n: init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("replicate", "shard")),
    )
    for stage in stages(root):
        after = log[log.index(f"reduce {stage.name}") + 1]
        wanted = f"replicate {stage.name}"
        expect(after == wanted and log.count(wanted) == 1, f"reduce {stage.name} is followed by {wanted}", log)


def test_the_root_is_kept_after_forward_by_default() -> None:
    """Left its default, the root keeps its parameters from forward to backward: one gather (pytorch#154655)."""
    log = record(three_blocks())
    expect(log.count("gather root") == 1, "the root is gathered once", log)
    expect(log.index("free root") > log.index("grad root"), "the root is freed after its backward", log)


def test_the_root_is_freed_after_forward_when_asked() -> None:
    """With reshard_after_forward True said aloud, the root is freed after forward and gathered again for backward."""
    log = record(three_blocks(), shard_with(True))
    expect(log[log.index("use root") + 1] == "free root", "use root is followed by free root", log)
    expect(log.count("gather root") == 2, "the root is gathered twice", log)


def test_the_root_stays_gathered_through_evaluation_by_default() -> None:
    """Left its default, a root that only evaluates is never freed, and its next forward gathers nothing.

    That is what pytorch#149029 reported: memory that evaluation does not give back. The remedy is the test after this.
    """
    log = record(three_blocks(), run=evaluate)
    expect("gather root" not in log, "the root is still there from the evaluation before", log)
    expect("free root" not in log, "evaluation leaves the root gathered", log)


def test_the_root_is_freed_after_evaluation_when_asked() -> None:
    """With reshard_after_forward True evaluation frees every unit, the root included."""
    log = record(root := three_blocks(), shard_with(True), run=evaluate)
    for stage in stages(root):
        expect(log.count(f"free {stage.name}") == log.count(f"fill {stage.name}") == 1, "evaluation frees all", log)
