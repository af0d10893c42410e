"""The suite's own tests run whole sessions: none may speak to the CI that runs the tests, or be deaf to Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator

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
