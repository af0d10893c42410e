"""Property: the recorded events of a step are the arm's choreography: every gather, reshard and reduction by unit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from itertools import zip_longest

import pytest
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from fixtures.errors import UsageError
from fixtures.ledger import Precision
from fixtures.measurements import Settings
from fixtures.meters.timeline import TimelineMeter
from fixtures.models import GPTConfig
from fixtures.platforms import playing_rank
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.recording import model_spec, record_events, record_timeline
from fixtures.simulation.choreography import step_events
from fixtures.simulation.scaling import hybrid_events
from fixtures.simulation.specs import ModelSpec
from fixtures.strategies import PARAM_DTYPE, REDUCE_DTYPE, build_model, get_strategy, rank_generator
from fixtures.timelines import Event
from fixtures.training import SEED
from fixtures.workloads import Workload, gpt2, mlp, resolve_workload

pytestmark = pytest.mark.cpu

N = 8
GPT = f"{__name__}:small_gpt"
WIDE = f"{__name__}:wide_mlp"
SIMULATED = ("single", "ddp", "fsdp2", "fsdp2-noreshard")
CASES = [*((arm, GPT) for arm in SIMULATED), ("fsdp2", "mlp"), ("fsdp2-noreshard", "mlp")]
CASE_IDS = [f"{arm}-{workload.rpartition(':')[2]}" for arm, workload in CASES]
"""Each arm; the sharded ones also on blocks alone, where the root has no parameters and so no collectives."""


def small_gpt() -> Workload:
    """Three blocks and a root with an embedding that is used twice; no dimension of it divides by 8 but the context."""
    return gpt2("small-gpt", GPTConfig(layers=3, heads=2, width=12, vocab=50, context=16), 2)


def wide_mlp() -> Workload:
    """Nothing but blocks, with 36 MB of gradients: three of DDP's buckets, the second over all four blocks."""
    return mlp("wide-mlp", layers=4, width=256, hidden=4400, rows=2)


@functools.cache
def recorded(strategy: str, workload: str, precision: Precision = "mixed") -> tuple[Event, ...]:
    """The events of a steady step of rank 0 of N."""
    with playing_rank(0, N) as platform:
        return record_events(strategy, workload, platform, Settings(precision=precision))


@functools.cache
def spec(workload: str) -> ModelSpec:
    """The units of the workload."""
    return model_spec(resolve_workload(workload))


def outline(events: Iterable[Event]) -> list[str]:
    """What was issued, in order, without FLOPs and shares, and without computation that has no FLOPs."""
    told = [e for e in events if e.flops or e.kind not in ("forward", "backward")]
    return [f"{e.kind} {e.unit} {e.dtype} {e.bytes}" for e in told]


def record_here(strategy: str) -> tuple[Event, ...]:
    """On a rank: the events of a steady step of the small GPT."""
    return record_events(strategy, GPT, current().platform)


def check(strategy: str, where: str, measured: list[str], made: list[str]) -> None:
    """Fail at the first event that differs."""
    pairs = zip_longest(measured, made)
    at = next((i for i, (event, expected) in enumerate(pairs) if event != expected), 0)
    assert measured == made, (
        f"the step of {strategy}, {where}, is not its choreography at event {at}: measured {measured[at : at + 3]}, "
        f"expected {made[at : at + 3]}. What torch gathers, frees and reduces when has changed, and with it every "
        "simulated time: read its release notes, run correctness_tests/test_choreography.py, then mend "
        "fixtures/simulation/choreography.py."
    )


@pytest.mark.parametrize(
    ("strategy", "workload"), CASES, ids=[f"{arm}-{workload.rpartition(':')[2]}" for arm, workload in CASES]
)
def test_a_step_is_its_choreography(strategy: str, workload: str) -> None:
    """Event for event, the recorded step is the one that the simulation makes of the units alone."""
    made = outline(step_events(strategy, spec(workload), N))
    check(strategy, f"{workload.rpartition(':')[2]}, rank 0 of {N}", outline(recorded(strategy, workload)), made)


def test_buckets_are_filled_as_gradients_arrive() -> None:
    """DDP reduces several buckets, each once its gradients are there, in the middle of a block's backward too."""
    made = outline(step_events("ddp", spec(WIDE), N))
    assert sum(event.startswith("all-reduce") for event in made) == 3
    check("ddp", f"wide_mlp, rank 0 of {N}", outline(recorded("ddp", WIDE)), made)


def test_without_mixed_precision_messages_are_float32() -> None:
    """Every gather of a step in full precision is of float32, twice the bytes; the order is the same."""
    made = outline(step_events("fsdp2", spec(GPT), N, "fp32"))
    check("fsdp2", f"small_gpt in fp32, rank 0 of {N}", outline(recorded("fsdp2", GPT, "fp32")), made)


def test_real_ranks_run_the_same_choreography(ranks: Callable[[int], RankPool]) -> None:
    """Each of 2 ranks of a real group records what one that is played does."""
    made = outline(step_events("fsdp2", spec(GPT), 2))
    for rank, events in enumerate(ranks(2).run(record_here, "fsdp2")):
        check("fsdp2", f"small_gpt, rank {rank} of cpu-gloo-2", outline(events), made)


def test_a_mesh_of_two_dimensions_reduces_between_replicas() -> None:
    """FSDP2 on 2 replicas of 4 shards all-reduces each unit's reduced shard, as the simulation has it."""
    workload = small_gpt()
    with playing_rank(0, N):
        model = build_model(workload, SEED)
        mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("replicate", "shard"))
        policy = MixedPrecisionPolicy(PARAM_DTYPE, REDUCE_DTYPE)
        for block in workload.blocks(model):
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        meter = TimelineMeter(model, workload)
        optimizer, batch = workload.optimizer(model.parameters()), workload.batch(rank_generator(SEED, 0))
        for _ in range(2):
            with meter.recording():
                get_strategy("fsdp2").step(model, workload, batch, optimizer, "mixed", meter.mark)
    check("hsdp", "small_gpt, rank 0 of 2 x 4", outline(meter.steps[-1]), outline(hybrid_events(spec(GPT), 4)))


def test_flat_units_are_told_apart() -> None:
    """FSDP1's step too: each unit is gathered before it computes, freed after, and reduced once."""
    events = recorded("fsdp1", GPT)
    order = [f"{event.kind} {event.unit}" for event in events]
    for unit in ("block 0", "block 1", "block 2"):
        told = [e.kind for e in events if e.unit == unit and e.kind != "copy-out"]
        once = ["all-gather", "forward", "reshard", "all-gather", "backward", "reshard", "reduce-scatter"]
        assert told == once, f"{unit} of fsdp1, rank 0 of {N}: measured {told}, expected {once}; the step: {order}"
    assert order.count("reduce-scatter root") == 1


def test_an_arm_whose_shards_cannot_be_told_is_refused() -> None:
    """A strategy of an extra is named, with those that are recorded, before anything of it is imported."""
    with pytest.raises(UsageError, match=r"no events are recorded of 'zero3'\. Record one of single, ddp, fsdp1"):
        record_timeline("zero3", GPT)


def test_the_timeline_shows_one_exposed_gather_in_forward() -> None:
    """With each computation as long as a gather, only what precedes the first block's computation is exposed."""
    timeline = record_timeline("fsdp2", GPT)
    first_backward = min(span.start_ms for span in timeline.spans if span.kind == "backward")
    exposed = [interval for interval in timeline.exposed if interval[0] < first_backward]
    assert timeline.source == "order"
    assert exposed == [(0.0, 2.0)]  # the root's gather and the first block's
