"""A pytest plugin for one session of the matrix: plant the fault in this process too, and write down what fails.

``--rank-patch`` plants a fault on every rank and in every process that plays one; a test that plays its ranks inside
pytest needs it there. Loaded with ``-p``, by the matrix alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from correctness_tests.suite.planting import is_a_checks, load_profile, told
from fixtures import experiment

SUITE = Path(__file__).parents[1]
RAISED = pytest.StashKey[BaseException]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the matrix tells its sessions."""
    group = parser.getgroup("whole runs", "a session of the matrix of faults")
    group.addoption(
        "--failures", type=Path, metavar="FILE", help="a line of JSON for each failure goes there; the lock beside it"
    )
    group.addoption("--named", default="", metavar="TEST", help="the test that must fail; its file runs first")
    group.addoption("--message", default="", metavar="REGEX", help="what it must say: no further once it has said it")
    group.addoption("--to-the-end", action="store_true", help="in the usual order, and on after that test has failed")
    group.addoption("--everything", action="store_true", help="the suite's own tests too")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Launches wait for no other session, since no time is judged here; under a fault hypothesis shrinks nothing."""
    patch, failures = pytest.MonkeyPatch(), config.getoption("--failures")
    patch.setattr(experiment, "lock_folder", lambda: failures.parent)
    before = hypothesis.settings.get_current_profile_name()
    if config.getoption("--rank-patch"):
        load_profile(derandomize=True)
    config.add_cleanup(lambda: hypothesis.settings.load_profile(before))
    config.add_cleanup(patch.undo)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Plant the fault here before any test is collected; a rehearsal's tests only read what its ranks measured."""
    from fixtures.ranks.worker import find_patch

    patch = session.config.getoption("--rank-patch")
    if patch and not session.config.getoption("--rehearse"):
        find_patch(patch)()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the suite's own tests out, but the file of the test that must fail."""
    if config.getoption("--everything") or SUITE not in collection_path.parents or collection_path.is_dir():
        return None
    named = config.rootpath / str(config.getoption("--named")).partition("::")[0]
    return True if collection_path.suffix == ".py" and collection_path != named else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The file of the test that must fail comes first, so that most of a session under a fault need not run."""
    named = str(config.getoption("--named"))
    if named and not config.getoption("--to-the-end"):
        items.sort(
            key=lambda item: (not is_named(item, named), item.path != config.rootpath / named.partition("::")[0])
        )


def is_named(item: pytest.Item, named: str) -> bool:
    """Whether it is the test that must fail, with any parameters."""
    return item.nodeid.partition("[")[0] == named


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Keep what a test raised, before the suite's own plugin makes a message of it."""
    try:
        return (yield)
    except BaseException as error:
        pyfuncitem.stash[RAISED] = error
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append a failure to the file, of whatever phase."""
    report = yield
    if report.failed:
        raised = item.stash.get(RAISED, None) if call.when == "call" else None
        error = raised or (call.excinfo.value if call.excinfo else None)
        failure: dict[str, Any] = {
            "test": item.nodeid,
            "text": told(error) if error is not None else report.longreprtext,
            "checked": error is None or is_a_checks(error),
        }
        with item.config.getoption("--failures").open("a", encoding="utf-8") as file:
            file.write(json.dumps(failure) + "\n")
        _stop_once_caught(item, failure)
    return report


def _stop_once_caught(item: pytest.Item, failure: dict[str, Any]) -> None:
    """As after ``-x``, but for one test's own message."""
    config = item.config
    if config.getoption("--to-the-end") or not is_named(item, config.getoption("--named")):
        return
    if failure["checked"] and re.search(config.getoption("--message"), failure["text"], re.DOTALL):
        item.session.shouldfail = "the test that must fail has failed"
