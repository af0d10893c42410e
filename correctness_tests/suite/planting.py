"""Run the test that a fault names, with the fault planted and without it, and say what came of it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
import pytest
import torch.distributed as dist

from correctness_tests.suite import faults
from correctness_tests.suite.faults import Caught
from fixtures.folder_options import SUITE
from fixtures.measurements import Settings
from fixtures.options import DEFAULT_WORKLOAD, GPU_LAUNCHES, GPU_WORLD_SIZE, Options
from fixtures.platforms import Platform
from fixtures.ranks.failures import RanksFailedError
from fixtures.ranks.pool import RankPool
from fixtures.session.budgets import Budgets

NAMED_TEST = re.compile(r"Must fail:\s+``((?:correctness_tests|perf_tests)/[\w/]+\.py::test_\w+)``")


class Outcome(StrEnum):
    """What became of a test: ``caught`` a fault, ``missed`` it, ``crashed`` instead, ``passed``, or ``false alarm``."""

    CAUGHT = "caught"
    MISSED = "missed"
    CRASHED = "crashed"
    PASSED = "passed"
    FALSE_ALARM = "false alarm"


@dataclass(frozen=True)
class Fault:
    """A fault of the folder: its name, the test that must fail under it (a node id) and how."""

    name: str
    test: str
    caught: Caught

    @property
    def rank_patch(self) -> str:
        """What plants it on a rank."""
        return f"{faults.__name__}.{self.name}:apply"


def fault_names() -> list[str]:
    """The modules of the folder, in alphabetical order."""
    return sorted(m.name for m in pkgutil.iter_modules(faults.__path__) if not m.name.startswith("_"))


def load_fault(name: str) -> Fault:
    """Read a fault's docstring and ``CAUGHT``; AssertionError when either does not say what it must."""
    module = importlib.import_module(f"{faults.__name__}.{name}")
    named = NAMED_TEST.search(module.__doc__ or "")
    assert named, f"{name}: its docstring has no 'Must fail: ``path::test``'"
    caught = getattr(module, "CAUGHT", None)
    assert isinstance(caught, Caught), f"{name}: it has no CAUGHT that says how its test fails"
    assert bool(caught.rehearsal) != bool(caught.unseen), f"{name}: CAUGHT has either cases of a rehearsal or unseen"
    return Fault(name, named[1], caught)


def find_test(node_id: str) -> Callable[..., None]:
    """Import the test function of a node id; AttributeError when it is gone."""
    path, _, name = node_id.partition("::")
    test: Callable[..., None] = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
    return test


def try_fault(fault: Fault) -> tuple[Outcome, str]:
    """Run the fault's test with the fault planted; the outcome, and the text of what the test raised."""
    failed, text = _run(fault, fault.rank_patch)
    if failed is None:
        return Outcome.MISSED, "its test passed"
    found = re.search(fault.caught.message, text, re.DOTALL)
    return (Outcome.CAUGHT if failed and found else Outcome.CRASHED), text


def try_without(fault: Fault) -> tuple[Outcome, str]:
    """Run the fault's test with nothing planted."""
    failed, text = _run(fault, None)
    return (Outcome.PASSED if failed is None else Outcome.FALSE_ALARM), text


def _run(fault: Fault, rank_patch: str | None) -> tuple[bool | None, str]:
    """None if the test passed, True if a check of it failed, False if it broke; and what it raised."""
    test, arguments = find_test(fault.test), dict(fault.caught.arguments)
    try:
        with _no_shrinking(derandomize=rank_patch is not None), ExitStack() as pools:
            if "tmp_path" in inspect.signature(test).parameters:
                arguments["tmp_path"] = Path(pools.enter_context(TemporaryDirectory(prefix="shardgate-")))
            parameters = inspect.signature(test).parameters.keys()
            if "budgets" in parameters:
                arguments["budgets"] = patched_budgets(rank_patch)
            fixtures = {"ranks": Platform.cpu, "solo": Platform.solo}
            for name in fixtures.keys() & parameters:
                arguments[name] = _patched_ranks(pools, rank_patch, fixtures[name])
            if parameters & {"budgets", *fixtures}:
                test(**arguments)
            else:
                pool = pools.enter_context(RankPool(Platform.cpu(1), rank_patch=rank_patch))
                pool.run(run_alone, fault.test, arguments, rank_patch is not None)
    except (Exception, pytest.fail.Exception) as error:
        return is_a_checks(error), told(error)
    return None, ""


def is_a_checks(error: BaseException) -> bool:
    """Whether a check raised this, here or on the first rank that failed; False for a test that broke on its way."""
    if isinstance(error, RanksFailedError):
        return bool(re.match(r"raised (AssertionError|Failed)\b", error.failures[0].what))
    return isinstance(error, (AssertionError, pytest.fail.Exception))


def told(error: BaseException) -> str:
    """What a failure says of itself; with its type before it where no check raised it."""
    return str(error) if is_a_checks(error) else f"{type(error).__name__}: {error}"


def run_alone(test: str, arguments: Mapping[str, Any], planted: bool) -> None:
    """On a rank: leave its process group and run a test that plays its ranks itself."""
    dist.destroy_process_group()
    with _no_shrinking(derandomize=planted):
        find_test(test)(**arguments)


def _patched_ranks(
    pools: ExitStack, rank_patch: str | None, platform: Callable[[int], Platform]
) -> Callable[[int], RankPool]:
    """The fixture ``ranks``, or ``solo``, with a fault on every rank."""
    kept: dict[int, RankPool] = {}

    def ranks(world_size: int) -> RankPool:
        if world_size not in kept or not kept[world_size].healthy:
            kept[world_size] = pools.enter_context(RankPool(platform(world_size), rank_patch=rank_patch))
        return kept[world_size]

    return ranks


def patched_budgets(rank_patch: str | None, baselines: Path = SUITE / "baselines") -> Budgets:
    """The fixture ``budgets``, its readings taken with a fault planted."""
    options = Options(
        rehearse=False,
        world_size=GPU_WORLD_SIZE,
        workload=DEFAULT_WORKLOAD,
        launches=GPU_LAUNCHES,
        max_launches=GPU_LAUNCHES,
        settings=Settings(),
        baselines=baselines,
        results=None,
        from_results=(),
        platform_key=None,
        update=None,
        dry_run=True,
        rank_patch=rank_patch,
    )
    return Budgets(options)


@contextmanager
def _no_shrinking(derandomize: bool) -> Iterator[None]:
    """Let hypothesis stop at the first example that fails, and forget it; a test's own settings keep these defaults.

    Under a fault it tries the same examples every time, so that a fault is caught always or never.
    """
    before = hypothesis.settings.get_current_profile_name()
    load_profile(derandomize)
    try:
        yield
    finally:
        hypothesis.settings.load_profile(before)


def load_profile(derandomize: bool) -> None:
    """From here on hypothesis stops at the first example that fails, and forgets it."""
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("faults", deadline=None, database=None, phases=phases, derandomize=derandomize)
    hypothesis.settings.load_profile("faults")
