"""xdist's workers share tests out by file, and no worker begins a long file when the others are almost done."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from fixtures.session.distribution import LONGEST_FIRST, OneJob

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).parents[2]


class Worker:
    """Takes down what it is given, by index."""

    def __init__(self) -> None:
        self.given: list[list[int]] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        """Take tests."""
        self.given.append(indices)


def order(*node_ids: str) -> list[str]:
    """The order in which one worker is given the scopes of these tests, when xdist would keep theirs."""
    scheduler: Any = OneJob.__new__(OneJob)
    worker = Worker()
    scheduler.registered_collections = {worker: list(node_ids)}
    scheduler.assigned_work, scheduler.workqueue = {}, OrderedDict()
    for node_id in node_ids:
        scheduler.workqueue.setdefault(scheduler._split_scope(node_id), {})[node_id] = False
    while scheduler.workqueue:
        scheduler._assign_work_unit(worker)
    return list(scheduler.assigned_work[worker])


def test_long_files_come_first() -> None:
    """The long ones in the order of the table, then the others in xdist's."""
    assert order("b.py::test_1", f"{LONGEST_FIRST[2]}::test_2", "a.py::test_3", "perf_tests/test_x.py::test_4") == [
        *("perf_tests", LONGEST_FIRST[2], "b.py", "a.py")
    ]


def test_one_worker_has_all_of_perf_tests() -> None:
    """Its files are one scope, wherever pytest was started; every other file is its own."""
    given = order("perf_tests/test_x.py::test_1", "../perf_tests/test_y.py::test_2", "a.py::A::test_3", "a.py::test_4")
    assert given == ["perf_tests", "a.py"]


@pytest.mark.parametrize("scope", LONGEST_FIRST)
def test_what_is_long_exists(scope: str) -> None:
    """A name in the table is a file or folder of tests."""
    assert (ROOT / scope).exists()
