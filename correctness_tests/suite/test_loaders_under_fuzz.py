"""Whatever a loader is given, it loads or is one UsageError of bounded length; what once broke one is tried again."""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests.suite.broken_files import values
from correctness_tests.suite.fuzz import __main__ as command
from correctness_tests.suite.fuzz import loaders
from correctness_tests.suite.fuzz.engine import IMPORTED_LATE
from correctness_tests.suite.fuzz.loaders import LOADERS, attempt, seeds
from correctness_tests.suite.fuzz.trees import places, replace_at
from fixtures.errors import UsageError

pytestmark = pytest.mark.cpu

FINDINGS = sorted(path for path in command.FINDINGS.iterdir() if not path.name.startswith("."))
JSON = ("launch", "budgets", "bandwidth", "verdicts", "timelines", "evidence")
"""Loaders of JSON; baselines have tests of their own (test_baselines_loading.py)."""


@pytest.mark.parametrize("name", LOADERS)
def test_good_input_is_accepted(name: str) -> None:
    """The inputs that fuzzing begins with are good ones; a workload's name is good where it is refused by name."""
    assert {attempt(name, seed) for seed in seeds(name)} == {name != "workload"}


@pytest.mark.parametrize("name", LOADERS)
@given(data=st.data())
def test_any_edit_is_accepted_or_refused(name: str, data: st.DataObject) -> None:
    """Any bytes in place of any part of a good input, and any bytes at all."""
    seed = data.draw(st.sampled_from([*seeds(name), b""]))
    begin = data.draw(st.integers(0, len(seed)))
    end = data.draw(st.integers(begin, min(len(seed), begin + 40)))
    new = data.draw(st.binary(max_size=16) | st.text(max_size=12).map(lambda t: t.encode("utf-8", "surrogatepass")))
    attempt(name, seed[:begin] + new + seed[end:])


@pytest.mark.parametrize("name", JSON)
@given(data=st.data(), value=values() | st.sampled_from([2**62, 1e-300, 1e300, "", [], "\ud800"]))
def test_any_value_anywhere_is_accepted_or_refused(name: str, data: st.DataObject, value: Any) -> None:
    """Any JSON in place of any value of a good file: refused, or used without another error."""
    tree = json.loads(seeds(name)[0])
    replace_at(tree, data.draw(st.sampled_from(places(tree)[1:])), value)
    attempt(name, json.dumps(tree).encode())


def test_what_once_broke_a_loader_is_refused() -> None:
    """Every input that fuzzing has found: its loader accepts or refuses it now."""
    for path in FINDINGS:
        attempt(path.name.partition("-")[0], path.read_bytes())


def test_what_a_loader_imports_late_is_instrumented() -> None:
    """The fuzzer sees the branches of modules that are imported by name before it begins, and of no others."""
    functions = [node for node in ast.parse(inspect.getsource(loaders)).body if isinstance(node, ast.FunctionDef)]
    late = {node.module for f in functions for node in ast.walk(f) if isinstance(node, ast.ImportFrom)}
    assert late == set(IMPORTED_LATE)


def test_what_breaks_a_loader_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a loader that raises anything else, or a message without end, fails."""
    monkeypatch.setitem(LOADERS, "platform", lambda data: bool(data[10**6]))
    with pytest.raises(IndexError):
        attempt("platform", b"")

    def talk(data: bytes) -> bool:
        raise UsageError("x" * 5000)

    monkeypatch.setitem(LOADERS, "platform", talk)
    with pytest.raises(AssertionError, match="a message of 5000 characters"):
        attempt("platform", b"")
