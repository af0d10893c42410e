"""A session of the matrix has the fault in every process, writes failures down and stops once the fault is caught."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from correctness_tests.suite import rank_jobs
from correctness_tests.suite.whole_runs import planted
from correctness_tests.suite.whole_runs.session import PLUGIN

pytestmark = pytest.mark.cpu

NAMED = "test_b.py::test_named"
FILES = {
    "test_a": """
        import pytest
        pytestmark = pytest.mark.cpu
        def test_other(): {}["nothing"]
    """,
    "test_b": """
        import pytest
        from correctness_tests.suite import rank_jobs
        pytestmark = pytest.mark.cpu
        def test_before(ranks): assert not ranks(1).run(rank_jobs.is_planted)[0]
        @pytest.mark.parametrize("n", range(4))
        def test_named(n): assert n == 0 or not rank_jobs.is_planted(), f"measured\\n{n}"
    """,
}


def failures(pytester: pytest.Pytester, *options: str, status: int = 1) -> list[dict[str, Any]]:
    """What a session under a patch wrote down."""
    pytester.makepyfile(**FILES)
    plugins = ("-p", "fixtures.plugin", "-p", PLUGIN, "-p", "no:randomly")
    patch = ("--rank-patch", "correctness_tests.suite.rank_jobs:plant")
    said = ("--failures", "failures", "--named", NAMED, "--message", r"measured\s+2\b")
    result = pytester.runpytest_inprocess(*plugins, *patch, *said, *options)
    rank_jobs.PLANTED.clear()
    assert result.ret == status
    return [json.loads(line) for line in Path("failures").read_text(encoding="utf-8").splitlines()]


def test_a_session_stops_once_the_named_test_has_said_it(pytester: pytest.Pytester) -> None:
    """The named test comes first; a failure of it with another message is written down and stops nothing."""
    found = failures(pytester)
    assert [one["test"] for one in found] == [f"{NAMED}[1]", f"{NAMED}[2]"]
    assert [one["text"].split()[:2] for one in found] == [["measured", "1"], ["measured", "2"]]
    assert all(one["checked"] for one in found)


def test_a_full_session_goes_on_to_the_end(pytester: pytest.Pytester) -> None:
    """In the usual order, with the patch on ranks too; a test that broke is no check that failed."""
    found = failures(pytester, "--to-the-end")
    tests = ["test_a.py::test_other", "test_b.py::test_before", *(f"{NAMED}[{n}]" for n in (1, 2, 3))]
    assert [(one["test"], one["checked"]) for one in found] == [(test, test != tests[0]) for test in tests]
    assert found[0]["text"] == "KeyError: 'nothing'"


@pytest.mark.parametrize(
    ("path", "everything", "ignored"),
    [
        ("correctness_tests/suite/test_tiers.py", False, True),
        ("correctness_tests/suite/test_named.py", False, None),
        ("correctness_tests/suite/test_tiers.py", True, None),
        ("correctness_tests/suite", False, None),
        ("correctness_tests/test_collectives.py", False, None),
    ],
)
def test_the_suites_own_tests_are_left_out(path: str, everything: bool, ignored: bool | None) -> None:
    """But for the file of the test that must fail, and unless everything was asked for."""
    root = planted.SUITE.parents[1]
    options = {"--everything": everything, "--named": "correctness_tests/suite/test_named.py::test_x"}
    config: Any = SimpleNamespace(getoption=options.__getitem__, rootpath=root)
    assert planted.pytest_ignore_collect(root / path, config) is ignored
