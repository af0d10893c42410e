"""However pytest itself is ended while it has ranks, it says so by its exit status, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from correctness_tests.suite.rank_faults.owners import OWNER_FAULTS, OwnerFault, Session

pytestmark = pytest.mark.cpu

FAULTS = {fault.name: fault for fault in OWNER_FAULTS}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    """A session for each way to end one, started at once, since starting takes longest."""
    running = {name: Session(tmp_path_factory.mktemp("owner")) for name in FAULTS}
    yield running
    for session in running.values():
        session.process.kill()
        session.process.wait()


def end(session: Session, fault: OwnerFault) -> str:
    """End it; it must leave nothing. What it printed."""
    trial = session.end(fault, pause_s=0.1)
    assert trial.wrong == [], trial.message
    assert trial.left_behind == []
    return trial.message


@pytest.mark.parametrize("name", ["pytest: SIGTERM", "pytest: SIGKILL", "pytest: Ctrl-C twice"])
def test_session_that_is_starting_leaves_nothing(sessions: dict[str, Session], name: str) -> None:
    """Ended while its fork server still imports torch, a session leaves no process and no file."""
    assert sessions[name].wait_for(sessions[name].is_preloading), sessions[name].output()
    end(sessions[name], FAULTS[name])


def test_interrupted_session_leaves_nothing(sessions: dict[str, Session]) -> None:
    """Ctrl-C while a rank hangs in C with the interpreter's lock ends the session, its ranks and their daemons, which
    are there before: pytest, the fork server, two ranks and two daemons of each."""
    session = sessions["pytest: Ctrl-C"]
    assert session.wait_for(session.is_up), session.output()
    assert sum(thing.startswith("process") for thing in session.left()) == 8
    assert "KeyboardInterrupt" in end(session, FAULTS["pytest: Ctrl-C"])
