"""A launch's figures: a step is as slow as its slowest rank, bytes are the fullest rank's; keys name the platform."""

from __future__ import annotations

import pytest

from correctness_tests.suite.synthetic import CPU4, Job
from fixtures.measurements import SOLO, Measurement, Stack, UnitRecord, UserCode

pytestmark = pytest.mark.cpu

LAUNCH = Job(launches=1).measurements()[0]


def of_ranks(*figures: dict[str, object]) -> Measurement:
    """A launch whose ranks have these."""
    ranks = [LAUNCH.ranks[0].model_copy(update={"rank": rank, **each}) for rank, each in enumerate(figures)]
    return LAUNCH.model_copy(update={"ranks": ranks})


def test_a_step_is_as_slow_as_its_slowest_rank() -> None:
    """The median over steps of the maximum over ranks: 9, 4, 8, and not the slowest rank's own median."""
    assert of_ranks({"step_ms": [1.0, 4.0, 8.0]}, {"step_ms": [9.0, 2.0, 3.0]}).step_ms == 8.0


def test_ranks_with_unequal_steps_have_no_step_time() -> None:
    """Cut to the shortest it would be a figure of nothing."""
    with pytest.raises(ValueError, match="shorter"):
        _ = of_ranks({"step_ms": [1.0, 4.0]}, {"step_ms": [9.0]}).step_ms


def test_bytes_are_those_of_the_fullest_rank() -> None:
    """Each figure by itself."""
    found = of_ranks({"resident_bytes": 5, "peak_bytes": 30}, {"resident_bytes": 7, "peak_bytes": 20})
    assert (found.resident_bytes, found.peak_bytes) == (7, 30)


def test_reserved_bytes_are_known_where_every_rank_has_them() -> None:
    """One rank without a caching allocator makes the figure unknown."""
    assert of_ranks({"reserved_bytes": 5}, {"reserved_bytes": 9}).reserved_bytes == 9
    assert of_ranks({"reserved_bytes": 5}, {"reserved_bytes": None}).reserved_bytes is None


def test_throughput_counts_the_tokens_of_every_process() -> None:
    """256 tokens on each of 4 ranks in 480 ms; of a rank that plays one of 4, its own."""
    assert LAUNCH.ktok_per_s == pytest.approx(4 * 256 / 480)
    alone = LAUNCH.model_copy(update={"platform": CPU4.model_copy(update={"backend": SOLO})})
    assert alone.ktok_per_s == pytest.approx(256 / 480)


@pytest.mark.parametrize(
    ("device", "backend", "processes", "times"),
    [("cpu", "gloo", 4, False), ("cuda", "nccl", 4, True), ("cuda", SOLO, 1, False), ("cpu", SOLO, 1, False)],
)
def test_times_count_where_real_devices_talk(device: str, backend: str, processes: int, times: bool) -> None:
    """Neither a CPU's times nor those without communication are gated."""
    platform = CPU4.model_copy(update={"device_type": device, "backend": backend})
    assert (platform.processes, platform.times_count) == (processes, times)


@pytest.mark.parametrize(
    ("told", "key"),
    [
        ({}, "cpu-gloo-4"),
        ({"machine": "epyc"}, "cpu-gloo-4--epyc"),
        ({"memory_gib": 140, "links": "nv18"}, "cpu-gloo-4--140gib-nv18"),
        ({"machine": "h200", "settings": {"B": "2", "A": "1"}}, "cpu-gloo-4--h200--set-c1f0203c"),
        ({"settings": {"A": "1", "B": "2"}}, "cpu-gloo-4--set-c1f0203c"),
    ],
)
def test_a_key_names_what_was_told(told: dict[str, object], key: str) -> None:
    """Machine, memory and links after the ranks, then the settings' hash, in whatever order they were set."""
    assert CPU4.model_copy(update=told).key == key


def test_a_stack_names_what_it_has() -> None:
    """What a CPU build lacks is left out."""
    assert str(Stack(torch="2.13.0", python="3.11.7")) == "torch 2.13.0, Python 3.11.7"
    whole = Stack(torch="2.13.0", python="3.11.7", cuda="13.0", nccl="2.28", driver="580")
    assert str(whole) == "torch 2.13.0, Python 3.11.7, cuda 13.0, nccl 2.28, driver 580"


def test_units_that_are_alike_are_listed_one_by_one() -> None:
    """As the ledger takes them: blocks in order, the root last."""
    units = [
        UnitRecord(name="block", count=2, parameters={"w": [4, 3]}),
        UnitRecord(name="root", parameters={"b": [5]}),
    ]
    assert LAUNCH.workload.model_copy(update={"units": units}).unit_shapes == [[[4, 3]], [[4, 3]], [[5]]]


@pytest.mark.parametrize(
    ("repository", "commit", "dirty", "said"),
    [
        ("net", "0123456789abcdef", False, "my.net of net, commit 0123456789ab"),
        ("net", "0123456789abcdef", True, "my.net of net, commit 0123456789ab+changes"),
        ("net", None, None, "my.net of net, no commit"),
        (None, None, None, "my.net in no repository"),
    ],
)
def test_code_of_a_user_names_where_it_is_from(
    repository: str | None, commit: str | None, dirty: bool | None, said: str
) -> None:
    """Repository and commit as far as they are known, and whether no commit has it."""
    assert str(UserCode(module="my.net", repository=repository, commit=commit, dirty=dirty)) == said
