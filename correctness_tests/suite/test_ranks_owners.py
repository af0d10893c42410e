"""A session of pytest that is interrupted says so by its exit status, and nothing of it stays.

SIGKILL of the process that owns ranks is in test_ranks_ending.py; SIGTERM, SIGKILL and Ctrl-C at random moments are in
``python -m correctness_tests.suite.rank_faults``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from correctness_tests.suite.rank_faults.owners import OWNER_FAULTS, OwnerFault, Session

pytestmark = pytest.mark.cpu

FAULTS = {fault.name: fault for fault in OWNER_FAULTS}


def end(session: Session, fault: OwnerFault) -> str:
    """End it; it must leave nothing. What it printed."""
    trial = session.end(fault, pause_s=0.1)
    assert trial.wrong == [], trial.message
    assert trial.left_behind == []
    return trial.message


def test_session_that_is_starting_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C, and once more, while its fork server still imports torch: no process and no file is left."""
    session = Session(tmp_path)
    assert session.wait_for(session.is_preloading), session.output()
    end(session, FAULTS["pytest: Ctrl-C twice"])


def test_interrupted_session_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while a rank hangs in C with the interpreter's lock ends the session, its ranks and their daemons, which
    are there before: pytest, the fork server, their guardian, two ranks and two daemons of each, and for each Python's
    own tracker of its shared memory."""
    session = Session(tmp_path)
    assert session.wait_for(session.is_up), session.output()
    assert sum(thing.startswith("process") for thing in session.left()) == 11
    assert "KeyboardInterrupt" in end(session, FAULTS["pytest: Ctrl-C"])
