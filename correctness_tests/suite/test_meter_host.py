"""The host meter counts Python calls and operators by phase, exactly: hooks of backward, inner operators included."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from fixtures.errors import InvalidMeasurementError
from fixtures.meters.controls import check_host
from fixtures.meters.host import NOT_COUNTED, PHASES, CallMeter, OperatorMeter, in_this_thread, short_name
from fixtures.platforms import Platform, playing_rank
from fixtures.ranks.pool import RankPool

pytestmark = pytest.mark.cpu

HERE = short_name(__file__)
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def nothing() -> None:
    """Cost a call."""


def calls_here(meter: CallMeter) -> list[int]:
    """Calls into this file, by phase."""
    return [meter.counts[phase][HERE] for phase in PHASES]


def test_calls_are_counted_in_their_phase() -> None:
    """Each call once, in the phase that runs; what follows the optimizer's mark counts with it; then none any more."""
    with CallMeter() as meter:
        nothing()
        meter.mark("forward")
        for _ in range(3):
            nothing()
        meter.mark("backward")
        nothing()
        meter.mark("optimizer")
        nothing()
    nothing()
    assert calls_here(meter) == [1, 3, 2]
    assert sys.getprofile() is None


def test_calls_of_c_functions_are_not_counted() -> None:
    """Sorting in C is no Python call; its key function is one each time."""
    with CallMeter() as meter:
        sorted([3, 1, 2], key=lambda value: -value)
        len([])
    assert calls_here(meter)[0] == 3


def test_a_hook_of_backward_runs_where_it_is_counted() -> None:
    """On the CPU backward calls its hooks in the thread that called it: one thread, and no call is missed."""
    module = nn.Linear(3, 3)
    seen: list[int] = []
    for parameter in module.parameters():
        parameter.register_hook(lambda _: seen.append(threading.get_ident()))  # type: ignore[no-untyped-call]
    loss = module(torch.ones(2, 3)).sum()
    with CallMeter() as meter:
        meter.mark("forward")
        loss.backward()
    assert set(seen) == meter.threads == {threading.get_ident()}
    assert calls_here(meter) == [0, 2, 0]


def test_files_of_one_name_are_added() -> None:
    """The same file of two installations is one line, with the calls into both."""
    calls: list[Callable[[], None]] = []
    for place in ("a", "b"):
        names: dict[str, Callable[[], None]] = {}
        exec(compile("def called(): pass", f"/{place}/site-packages/twice.py", "exec"), names)
        calls += [names["called"]] * 2
    with CallMeter() as meter:
        for call in calls:
            call()
    assert meter.counts["forward"]["twice.py"] == 4


def test_a_meter_that_never_ran_has_counted_nothing() -> None:
    """Neither calls, nor threads, nor operators."""
    assert (CallMeter().counts, CallMeter().threads, OperatorMeter().counts) == ({}, set(), {})


def test_backward_can_be_kept_in_the_calling_thread() -> None:
    """On an accelerator autograd would run hooks in a thread of its own."""
    kept = in_this_thread()
    with kept:
        assert getattr(kept, "mode") is False  # noqa: B009 the type says no more than that it is a context manager


def test_operators_keep_their_arguments() -> None:
    """By keyword too: a float64 stays one, and its operator is counted."""
    with OperatorMeter() as meter:
        made = torch.ones(3, dtype=torch.float64)
    assert made.dtype == torch.float64
    assert dict(meter.counts["forward"]) == {"aten.ones.default": 1}


def test_threads_that_a_step_starts_are_counted() -> None:
    """A thread started while the meter runs is seen; one that was there before is not, and the docstring says so."""
    with CallMeter() as meter:
        thread = threading.Thread(target=nothing)
        thread.start()
        thread.join()
    assert calls_here(meter)[0] == 1
    assert len(meter.threads) == 2


def test_the_suites_loop_is_left_out() -> None:
    """The files around a step that may be written otherwise exist, so that none is left out in vain."""
    assert [file for file in sorted(NOT_COUNTED) if not Path(file).is_file()] == []


def test_operators_of_a_dtensor_are_the_inner_ones() -> None:
    """An operator on a DTensor counts as what it becomes on its local tensor, once."""
    with playing_rank(0, 4):
        mesh = init_device_mesh("cpu", (4,))
        sharded = DTensor.from_local(torch.ones(2, 3), mesh, [Shard(0)])
        sharded.sin()
        with OperatorMeter() as meter:
            sharded.sin()
    assert meter.counts["forward"]["aten.sin.default"] == 1


def test_labels_are_no_operators() -> None:
    """A profiler's label costs no kernel and counts nothing."""
    with OperatorMeter() as meter, torch.profiler.record_function("a label"):
        pass
    assert {phase: dict(counts) for phase, counts in meter.counts.items()} == {phase: {} for phase in PHASES}


class Deaf(CallMeter):
    """Misses every other call."""

    @property
    def counts(self) -> dict[str, object]:  # type: ignore[override]
        """Half of what was counted."""
        counts = super().counts
        return {phase: type(files)({f: n // 2 for f, n in files.items()}) for phase, files in counts.items()}


def test_a_meter_that_misses_calls_is_refused() -> None:
    """The control fails for it, with what it read and what is known."""
    with playing_rank(0, 2) as platform:
        assert "calls [4, 3, 4] of [4, 3, 4]" in check_host(CallMeter(), OperatorMeter(), platform)
        with pytest.raises(InvalidMeasurementError, match=r"host meter's control failed.*\[2, 1, 2\].*\[4, 3, 4\]"):
            check_host(Deaf(), OperatorMeter(), platform)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/home/me/venv/lib/python3.11/site-packages/torch/optim/adam.py", "torch/optim/adam.py"),
        (f"/usr/lib/{PYTHON}/inspect.py", "python/inspect.py"),
        ("/opt/site-packages/tool/lib/site-packages/torch/nn/init.py", "torch/nn/init.py"),
        (f"/opt/{PYTHON}/lib/{PYTHON}/inspect.py", "python/inspect.py"),
        ("/home/me/project/my_models.py", "project/my_models.py"),
        ("of/my/own/models.py", "of/my/own/models.py"),
        ("<string>", "<string>"),
        (__file__, "correctness_tests/suite/test_meter_host.py"),
    ],
)
def test_files_have_the_same_name_on_every_machine(file: str, name: str) -> None:
    """No path of a machine is stored."""
    assert short_name(file) == name


def work_of_a_step() -> tuple[dict[str, int], dict[str, int]]:
    """On a rank: calls and operators of the third step of a small model, by phase."""
    from fixtures.measurements import Settings
    from fixtures.ranks.worker import current
    from fixtures.training import Arm, Trainer

    trainer = Trainer(Arm("mlp", "fsdp2", Settings()), current().platform)
    for _ in range(3):
        trainer.step()
    calls, operators = CallMeter(), OperatorMeter()
    with calls:
        trainer.step(calls.mark)
    with operators:
        trainer.step(operators.mark)
    return tuple({p: sum(m.counts[p].values()) for p in PHASES} for m in (calls, operators))  # type: ignore[return-value]


def test_fresh_processes_agree(solo: Callable[[int], RankPool]) -> None:
    """Two processes count the same operators and the same calls: nothing depends on where objects lie."""
    first = solo(8).run(work_of_a_step)[0]
    with RankPool(Platform.solo(8)) as pool:
        assert pool.run(work_of_a_step)[0] == first
