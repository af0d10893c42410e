"""The suite's own tests run whole sessions: none of them may speak to the CI that runs the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_ci_listens() -> Iterator[None]:
    """Sessions inside tests neither write the real job summary nor annotate the real run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
            patch.delenv(name, raising=False)
        yield
