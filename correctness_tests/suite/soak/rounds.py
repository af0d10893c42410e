"""The plugin: runs the session's tests on ranks for so many rounds, its pools kept, and reads after each.

A session's own fixtures live from the first round to the last; those of modules and functions are made anew. What a
module keeps by ``functools.cache`` is forgotten between rounds, so that every round does the work again.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Generator, Iterable

import pytest
from hypothesis.strategies._internal.utils import clear_strategy_cache

from correctness_tests.suite.soak.drift import Drift, drifts
from correctness_tests.suite.soak.readings import Reading, clocks, read, settle
from fixtures.ranks import RankPools, launcher
from fixtures.session.selection import needs

NAME = "shardgate-soak"
CACHED = type(functools.cache(len))
ENDS = "pytest: ends of fixtures"
"""The series of what pytest has still to call before the session's own fixtures end."""
OWN = ("correctness_tests", "perf_tests", "fixtures")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("soak")
    group.addoption("--rounds", type=int, default=30, metavar="N", help="how often (default: 30)")
    group.addoption("--soak-minutes", type=float, default=0.0, metavar="M", help="begin no round after so long")


def pytest_configure(config: pytest.Config) -> None:
    """Repeat this session's tests."""
    config.pluginmanager.register(Rounds(config.getoption("rounds"), config.getoption("soak_minutes")), NAME)


class Rounds:
    """Takes the place of pytest's own loop over the tests."""

    def __init__(self, rounds: int, minutes: float) -> None:
        self.rounds = rounds
        self.seconds = 60 * minutes or float("inf")
        self.readings: list[Reading] = []
        self.pools: RankPools | None = None
        self.lasting: set[pytest.FixtureDef[object]] = set()
        self.grown: list[Drift] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Take note of the session's own fixtures, its pools among them, when they are made."""
        made = yield
        if fixturedef.scope == "session":
            self.lasting.add(fixturedef)
        if isinstance(made, RankPools):
            self.pools = made
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Only checks on ranks: the others use no pool."""
        others = [item for item in items if not needs(item, "rank_pools")]
        items[:] = [item for item in items if needs(item, "rank_pools")]
        config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Round after round, until one fails."""
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None
        began = time.monotonic()
        for number in range(self.rounds):
            begun = clocks()
            _run(session)
            _let_go(self.lasting)
            ends = {ENDS: sum(len(fixture._finalizers) for fixture in self.lasting)}
            self.readings.append(self._settled() | ends | read(*self._processes(), begun))
            self._tell(session, number)
            _forget(session.items)
            if time.monotonic() - began > self.seconds:
                break
        return True

    def _settled(self) -> Reading:
        """The objects of each pool's ranks, which are asked to give back what is free."""
        pools = {} if self.pools is None else self.pools._pools
        return {f"ranks of {p.key}: objects": sum(pool.run(settle)) for p, pool in pools.items() if pool.clean}

    def _processes(self) -> tuple[list[int], dict[str, list[int]]]:
        servers = [found.process.pid for found in launcher._launchers.values()]
        pools = {} if self.pools is None else self.pools._pools
        return servers, {f"ranks of {platform.key}": pool.pids for platform, pool in pools.items()}

    def _tell(self, session: pytest.Session, number: int) -> None:
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            reading = self.readings[-1]
            terminal.write_line(f" round {number + 1}: {reading['wall s']:.1f} s, CPU {reading['CPU s']:.1f} s")
            for kind in set(terminal.stats) - {"failed", "error", "warnings", "deselected"}:
                del terminal.stats[kind]  # else each report, some with a traceback, stays until the end

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """What grows fails the session; so does a soak too short to tell."""
        if not self.readings:
            return
        try:
            self.grown = [drift for drift in drifts(self.readings) if drift.grows]
            held = not self.grown
        except ValueError:
            held = False
        if not held and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Every series: its first and last value, its slope a round, and what grows."""
        for line in self.report():
            terminalreporter.write_line(line)

    def report(self) -> Iterable[str]:
        """The lines of the summary."""
        try:
            found = drifts(self.readings)
        except ValueError as error:
            yield f"soak: nothing can be told: {error}"
            return
        yield f"soak: {len(self.readings)} rounds; after the settling ones:"
        yield f"{'':42} {'first':>12} {'last':>12} {'a round':>10}"
        for drift in found:
            mark = "  GROWS" if drift.grows else ""
            yield f"{drift.name:42} {drift.first:12,.1f} {drift.last:12,.1f} {drift.slope:+10.2f}{mark}"
        for drift in self.grown:
            yield f"{drift.name}: {', '.join(f'{reading[drift.name]:g}' for reading in self.readings)}"


def _run(session: pytest.Session) -> None:
    """One round, as pytest's own loop does it, but that the session's fixtures stay after its last test."""
    for item, following in zip(session.items, [*session.items[1:], session], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _forget(items: Iterable[pytest.Item]) -> None:
    """Clear the caches of the suite's and the tests' own modules, and hypothesis's of a thousand strategies.

    That is bounded, but the strategies that tests make anew would fill it for more than twenty rounds.
    """
    clear_strategy_cache()  # it has no public name but as what registering a type does besides
    names = {item.module.__name__ for item in items if isinstance(item, pytest.Function)}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OWN or name in names:
            for value in list(vars(module).values()):
                if isinstance(value, CACHED):
                    value.cache_clear()


def _let_go(lasting: Iterable[pytest.FixtureDef[object]]) -> None:
    """Take the ends of a round's own fixtures off the session's fixtures: they have ended.

    pytest keeps one for every test until the session's fixture ends too (2 KB, with the request that it holds), which
    would be growth here and nowhere else: a usual session runs a test once.
    """
    for fixture in lasting:
        fixture._finalizers[:] = [end for end in fixture._finalizers if not _is_of_a_round(end)]


def _is_of_a_round(end: object) -> bool:
    """Whether it ends a fixture of narrower scope than the session."""
    owner = getattr(getattr(end, "func", None), "__self__", None)
    return isinstance(owner, pytest.FixtureDef) and owner.scope != "session"
