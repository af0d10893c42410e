"""The message of a failed job: the cause comes first, and it reads on its own. Pure; no rank is started."""

from __future__ import annotations

from pathlib import Path

import pytest

import fixtures
from fixtures.ranks import FailureKind, RankFailure, RanksFailedError
from fixtures.ranks.failures import CONSEQUENCE_S, order_failures
from fixtures.ranks.stacks import Stack, parse_stack

pytestmark = pytest.mark.cpu

FIXTURES = Path(fixtures.__file__).parent

LOST = "raised RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:21188"
ALSO_LOST = "raised RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:9: Connection reset by peer"

DUMP = """\
Thread 0x00007f212f7c06c0 (most recent call first):
  File "/repo/fixtures/elsewhere.py", line 99 in watch
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f21533d0b80 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/repo/test_mine.py", line 32 in train
"""


def failed(rank: int, kind: FailureKind, what: str, seconds: float, **more: object) -> RankFailure:
    """A failure, shorter to write."""
    return RankFailure(rank, kind, what, seconds, **more)  # type: ignore[arg-type]


def test_first_in_time_comes_first() -> None:
    """Failures of one kind are sorted by time, and by rank when that is equal."""
    late, early, same = (
        failed(rank, FailureKind.EXCEPTION, "raised E", at) for rank, at in ((0, 2.0), (2, 1.0), (1, 1.0))
    )
    assert order_failures([late, early, same]) == (same, early, late)


@pytest.mark.parametrize(
    "cause",
    [(FailureKind.SIGNAL, "was killed by SIGKILL"), (FailureKind.EXIT, "exited"), (FailureKind.EXCEPTION, "raised E")],
)
def test_lost_peer_never_outranks_its_cause(cause: tuple[FailureKind, str]) -> None:
    """A rank notices that its peer is gone before the peer's end is known; the peer is still the headline."""
    lost, cause_of_it = failed(0, FailureKind.EXCEPTION, LOST, 1.0), failed(1, *cause, 1.2)
    assert order_failures([lost, cause_of_it])[0] is cause_of_it


def test_lost_peer_long_before_stands_alone() -> None:
    """A connection that breaks well before any other failure is no consequence of that."""
    lost = failed(0, FailureKind.EXCEPTION, LOST, 1.0)
    later = failed(1, FailureKind.SIGNAL, "was killed by SIGKILL", 1.1 + CONSEQUENCE_S)
    assert order_failures([later, lost])[0] is lost


def test_missed_deadline_never_outranks_another_failure() -> None:
    """A deadline is missed because of what another rank did, even if that is known later."""
    late, skipped = failed(0, FailureKind.DEADLINE, "missed", 1.0), failed(1, FailureKind.SKIPPED, "skipped", 1.5)
    assert order_failures([late, skipped])[0] is skipped


def test_rank_outside_a_collective_is_blamed_for_the_deadline() -> None:
    """Of the ranks that missed the deadline, one that does not wait for its peers comes first."""
    waiting = failed(0, FailureKind.DEADLINE, "missed", 1.0, waits_for_peers=True)
    stuck = failed(1, FailureKind.DEADLINE, "missed", 1.0)
    assert order_failures([waiting, stuck])[0] is stuck


def test_silent_rank_is_blamed_first() -> None:
    """Of the ranks that missed the deadline, one that did not answer comes before one that waits for its peers, and
    before one that is not known to wait: what hangs can answer, what is stopped can't."""
    waiting = failed(0, FailureKind.DEADLINE, "missed", 1.0, waits_for_peers=True)
    elsewhere = failed(1, FailureKind.DEADLINE, "missed", 1.0)
    silent = failed(2, FailureKind.DEADLINE, "missed", 1.0, silent=True)
    assert order_failures([waiting, elsewhere, silent]) == (silent, elsewhere, waiting)


def frame(file: str, function: str) -> str:
    """A line of a dump."""
    return f'  File "{file}", line 7 in {function}\n'


COLLECTIVE = frame("/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", "all_reduce")
PROGRAM = frame("/repo/test_mine.py", "train")
METER = (
    frame(f"{FIXTURES}/meters/lending.py", "finish")
    + frame("/venv/lib/python3.11/site-packages/torch/utils/_pytree.py", "tree_map")
    + frame(f"{FIXTURES}/meters/lending.py", "lend_to_collective")
    + frame(f"{FIXTURES}/meters/storages.py", "__torch_dispatch__")
    + frame("/venv/lib/python3.11/site-packages/torch/_compile.py", "inner")
)


def test_meters_are_looked_past() -> None:
    """A rank that runs under a meter waits for its peers where it would without, and only there."""
    waiting, computing = parse_stack(METER + COLLECTIVE + PROGRAM), parse_stack(METER + PROGRAM)
    assert waiting.waits_for_peers
    assert (
        waiting.place == "all_reduce (torch/distributed/distributed_c10d.py:7), called by train (/repo/test_mine.py:7)"
    )
    assert not computing.waits_for_peers
    assert computing.place == "train (/repo/test_mine.py:7)"
    assert len(computing.frames) == 6


def test_only_meters_are_looked_past() -> None:
    """Frames of torch that a meter would be called through count when there is no meter."""
    helper = frame("/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py", "checkpoint")
    stack = parse_stack(helper + COLLECTIVE + PROGRAM)
    assert not stack.waits_for_peers
    assert stack.place.startswith("checkpoint (torch/utils/checkpoint.py:7)")


def test_stack_is_the_main_threads() -> None:
    """Of a dump, only the main thread counts; its place names the innermost frame and the caller outside torch."""
    stack = parse_stack(DUMP)
    assert [frame.function for frame in stack.frames] == ["all_reduce", "wrapper", "train"]
    assert stack.waits_for_peers
    expected = "all_reduce (torch/distributed/distributed_c10d.py:3252), called by train (/repo/test_mine.py:32)"
    assert stack.place == expected


def test_message_reads_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole message, to the letter: headline, traceback, the other ranks, stacks, output, what to run next."""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "correctness_tests/test_x.py::test_step[a b] (call)")
    error = RanksFailedError(
        [
            failed(0, FailureKind.EXCEPTION, LOST, 0.02, traceback="Traceback ...\n", output="not shown"),
            failed(1, FailureKind.SIGNAL, "was killed by SIGSEGV", 0.03, output="Fatal Python error\nin step"),
        ],
        world_size=4,
        platform="cpu-gloo-4",
        job="suite.jobs:step",
        others={2: "finished after 0.01 s", 3: f"was alive in {parse_stack(DUMP).place}"},
        stacks={3: str(parse_stack(DUMP)), 1: str(Stack())},
    )
    assert str(error) == (
        """\
rank 1 of 4 was killed by SIGSEGV, 0.03 s after suite.jobs:step began on cpu-gloo-4.

rank 0 raised RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:21188, after 0.02 s \
(a consequence: it lost its peer)
rank 2 finished after 0.01 s
rank 3 was alive in all_reduce (torch/distributed/distributed_c10d.py:3252), called by train (/repo/test_mine.py:32)

stack of rank 3, innermost first:
  all_reduce (torch/distributed/distributed_c10d.py:3252)
  wrapper (torch/distributed/c10d_logger.py:83)
  train (/repo/test_mine.py:32)

end of the output of rank 1:
  Fatal Python error
  in step

run this test alone: pytest 'correctness_tests/test_x.py::test_step[a b]'"""
    )


def test_message_says_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole message of a killed rank among eight: gloo's long text once, equal lines, stacks and outputs merged."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    stack = parse_stack(DUMP)
    error = RanksFailedError(
        [
            failed(2, FailureKind.EXCEPTION, ALSO_LOST, 0.03),
            failed(0, FailureKind.EXCEPTION, LOST, 0.02),
            failed(1, FailureKind.SIGNAL, "was killed by SIGKILL", 0.01, output="begins"),
            failed(7, FailureKind.SIGNAL, "was killed by SIGKILL", 0.01, output="begins"),
        ],
        world_size=8,
        platform="cpu-gloo-8",
        job="suite.jobs:step",
        others={3: f"was alive in {stack.place}", 5: f"was alive in {stack.place}"},
        stacks=dict.fromkeys((3, 5), str(stack)),
    )
    assert str(error) == (
        """\
rank 1 of 8 was killed by SIGKILL, 0.01 s after suite.jobs:step began on cpu-gloo-8.

rank 0 raised RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:21188, after 0.02 s \
(a consequence: it lost its peer)
rank 2 raised RuntimeError like rank 0, after 0.03 s (a consequence: it lost its peer)
ranks 3, 5 were alive in all_reduce (torch/distributed/distributed_c10d.py:3252), called by train \
(/repo/test_mine.py:32)
rank 7 was killed by SIGKILL, after 0.01 s

stack of ranks 3, 5, innermost first:
  all_reduce (torch/distributed/distributed_c10d.py:3252)
  wrapper (torch/distributed/c10d_logger.py:83)
  train (/repo/test_mine.py:32)

end of the output of ranks 1, 7:
  begins

if nothing here kills ranks, the kernel's out-of-memory killer may have: dmesg | tail
run it again"""
    )


def test_a_job_says_how_it_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch of a job belongs to many tests: the command is the session's, and not the test's that came first."""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "t.py::t (call)")
    failures = [failed(0, FailureKind.DEADLINE, "missed the deadline", 1.0)]
    error = RanksFailedError(failures, world_size=2, platform="cpu-gloo-2", job="suite.jobs:step")
    told = error.told("pytest perf_tests -m gpu --rehearse --world-size 2")
    assert told.endswith(
        "run it again: TORCH_DISTRIBUTED_DEBUG=DETAIL pytest perf_tests -m gpu --rehearse --world-size 2"
    )
    assert str(error).endswith("pytest t.py::t")


def test_different_errors_are_all_told() -> None:
    """Errors of one type whose texts differ are not taken for the same; equal ones name the rank that has the text."""
    texts = ["raised ValueError: shard 1", "raised ValueError: shard 2", "raised ValueError: shard 1"]
    failures = [failed(rank, FailureKind.EXCEPTION, text, float(rank)) for rank, text in enumerate(texts)]
    message = str(RanksFailedError(failures, world_size=3, platform="cpu-gloo-3", job="suite.jobs:step"))
    assert (
        "rank 1 raised ValueError: shard 2, after 1.00 s\nrank 2 raised ValueError like rank 0, after 2.00 s" in message
    )


@pytest.mark.parametrize(
    ("kind", "what", "expected"),
    [
        (
            FailureKind.DEADLINE,
            "missed the deadline",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names ranks whose collectives differ\n"
            "run this test alone: TORCH_DISTRIBUTED_DEBUG=DETAIL pytest t.py::t",
        ),
        (
            FailureKind.SKIPPED,
            "skipped alone (why)",
            "make the condition the same on every rank of cpu-gloo-2\nrun this test alone: pytest t.py::t",
        ),
    ],
)
def test_last_line_can_be_run(kind: FailureKind, what: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message ends in the command for what failed, after what else there is to know."""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "t.py::t (call)")
    error = RanksFailedError([failed(0, kind, what, 1.0)], world_size=2, platform="cpu-gloo-2", job="suite.jobs:step")
    assert str(error).endswith(f"\n\n{expected}")
