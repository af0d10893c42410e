"""Property: a profiler's trace becomes the lanes of a step: each collective's kind and unit, and what was exposed.

The traces are made up, as torch.profiler exports them: of gloo's threads, and of a GPU's streams.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from fixtures.lanes import overlap_lines, slices_of, timeline_of
from fixtures.timelines import Timeline

pytestmark = pytest.mark.cpu


def event(name: str, category: str, tid: int, start: float, end: float) -> dict[str, Any]:
    """One interval, us."""
    return {"ph": "X", "name": name, "cat": category, "pid": 0, "tid": tid, "ts": 1000 + start, "dur": end - start}


PHASES = [
    event("shardgate::forward", "user_annotation", 1, 0, 3000),
    event("shardgate::backward", "user_annotation", 1, 3000, 6000),
    event("shardgate::optimizer", "user_annotation", 1, 6000, 7000),
]
ISSUED = [
    event("FSDP::all_gather", "user_annotation", 1, 0, 60),
    event("c10d::_allgather_base_", "cpu_op", 1, 10, 50),
    event("FSDP::pre_forward (blocks.0)", "user_annotation", 1, 100, 300),
    event("FSDP::all_gather (blocks.0)", "user_annotation", 1, 100, 200),
    event("c10d::_allgather_base_", "cpu_op", 1, 110, 150),
    event("FSDP::post_backward_reduce (blocks.0)", "user_annotation", 1, 3100, 3400),
    event("c10d::_reduce_scatter_base_", "cpu_op", 1, 3150, 3200),
]
GLOO = [
    event("gloo:all_gather", "user_annotation", 2, 50, 1050),
    event("gloo:all_gather", "user_annotation", 3, 1100, 2000),
    event("gloo:all_reduce", "user_annotation", 2, 3200, 6200),
]
ON_HOST = [
    event("aten::mm", "cpu_op", 1, 1050, 2500),
    event("autograd::engine::evaluate_function: MmBackward0", "cpu_op", 1, 3500, 5900),  # waits too: no computation
    event("aten::mm", "cpu_op", 1, 3500, 4500),
    event("aten::_foreach_add_", "cpu_op", 1, 6100, 6900),
]
KERNELS = [
    event("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", 20, 5000, 6000),
    event("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", 20, 6050, 7000),
    event("ampere_bf16_s16816gemm_bf16_128x128", "kernel", 7, 6000, 8000),
    event("ampere_bf16_s16816gemm_bf16_128x256", "kernel", 7, 9000, 11000),
    event("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", 20, 9500, 11500),
    event("void at::native::multi_tensor_apply_kernel<adam>", "kernel", 7, 12000, 12500),
    event("shardgate::forward", "gpu_user_annotation", 7, 5000, 8000),
    event("shardgate::optimizer", "gpu_user_annotation", 7, 11600, 12500),
]


def step(*events: dict[str, Any]) -> Timeline:
    """The lanes of a trace that holds these."""
    trace = json.dumps({"traceEvents": [{"ph": "M", "name": "process_name"}, *PHASES, *ISSUED, *events]})
    return timeline_of("fsdp2", slices_of(gzip.compress(trace.encode())))


def lanes(timeline: Timeline, lane: str) -> list[tuple[str, str, float, float]]:
    """Kind, unit, start and end, ms, of a lane's bars."""
    return [(s.kind, s.unit, round(s.start_ms, 3), round(s.end_ms, 3)) for s in timeline.spans if s.lane == lane]


def test_gloo_threads_are_the_communication_lane() -> None:
    """A collective has the kind and the unit of its call, since gloo reduces and scatters by an all-reduce."""
    assert lanes(step(*GLOO, *ON_HOST), "communication") == [
        ("all-gather", "root", 0.05, 1.05),
        ("all-gather", "blocks.0", 1.1, 2.0),
        ("reduce-scatter", "blocks.0", 3.2, 6.2),
    ]


def test_the_hosts_operators_are_the_compute_lane() -> None:
    """Operators of the step's own thread, by phase; what wraps them, and may wait, is none."""
    assert lanes(step(*GLOO, *ON_HOST), "compute") == [
        ("forward", "", 1.05, 2.5),
        ("backward", "", 3.5, 4.5),
        ("optimizer", "", 6.1, 6.9),
    ]


def test_a_devices_streams_are_its_lanes() -> None:
    """Kernels of NCCL communicate and the others compute; backward lies between what was annotated on the stream."""
    timeline = step(*KERNELS)
    assert lanes(timeline, "communication") == [
        ("all-gather", "root", 0.0, 1.0),
        ("all-gather", "blocks.0", 1.05, 2.0),
        ("reduce-scatter", "blocks.0", 4.5, 6.5),
    ]
    assert [kind for kind, *_ in lanes(timeline, "compute")] == ["forward", "backward", "optimizer"]


def test_exposed_time_is_told_by_kind() -> None:
    """The first gather is bare, the later one under a computation, half a ms of the reduction is bare at its end."""
    first, second = overlap_lines(step(*KERNELS))
    assert first == "fsdp2: 1.5 of 7.5 ms exposed (all-gather 1, reduce-scatter 0.5)"
    assert second == "fsdp2: the first gather (root) is exposed for 1 of 1 ms; later ones are hidden"


def test_a_gather_that_is_not_hidden_is_named() -> None:
    """Without the forward's kernel the second gather is exposed too, and its unit is said."""
    bare = [e for e in KERNELS if e["name"] != "ampere_bf16_s16816gemm_bf16_128x128"]
    assert overlap_lines(step(*bare))[1].endswith("1 of the 1 later ones are not hidden: blocks.0")


def test_counts_that_differ_leave_the_backends_names() -> None:
    """Where more ran than was called, no call is taken for another: kinds are the backend's, units unknown."""
    extra = event("gloo:all_reduce", "user_annotation", 2, 6300, 6400)
    kinds = [(kind, unit) for kind, unit, *_ in lanes(step(*GLOO, extra), "communication")]
    assert kinds == [("all-gather", ""), ("all-gather", ""), ("all-reduce", ""), ("all-reduce", "")]


def test_nothing_communicated_is_said() -> None:
    """A step of one played rank has a compute lane alone."""
    assert overlap_lines(step(*ON_HOST)) == ["fsdp2: nothing was communicated in the profiled step"]


def test_a_trace_without_phases_is_refused() -> None:
    """Some other trace is no step."""
    with pytest.raises(ValueError, match="no phases of a step"):
        timeline_of("ddp", slices_of(json.dumps({"traceEvents": GLOO}).encode()))
