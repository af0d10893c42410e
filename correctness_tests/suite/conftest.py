"""The suite's own tests run whole sessions: none may speak to the CI that runs the tests, be deaf to Ctrl-C, or change
which examples the tests after it draw."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_ci_listens() -> Iterator[None]:
    """Sessions inside tests neither write the real job summary nor annotate the real run, and may update baselines."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _sessions_hear_ctrl_c() -> Iterator[None]:
    """Where a shell has started the tests in the background SIGINT is ignored, by every process that they start too."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def _own_profile() -> None:
    """Hypothesis' settings of this session, by a name: one that a test runs loads its own into this process."""
    hypothesis.settings.register_profile("the session's own", hypothesis.settings.default)


@pytest.fixture(autouse=True)
def _own_examples(_own_profile: None) -> Iterator[None]:
    """Where CI is set every run draws the same examples, also after a session that ran without it."""
    yield
    hypothesis.settings.load_profile("the session's own")
