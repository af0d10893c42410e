"""A session inside a test does not change which examples hypothesis draws for the tests after it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.cpu

TIERS = "[pytest]\nmarkers =\n  cpu: one tier\n  gpu: the other\n"
INSIDE = """
import pytest
from hypothesis import settings

@pytest.mark.cpu
def test_draws_as_in_ci():
    assert settings.default.derandomize
"""


def test_the_next_test_has_the_sessions_profile(pytester: pytest.Pytester) -> None:
    """What a session inside a test loads, one for CI here, ends with that session."""
    pytester.makeini(TIERS)
    pytester.makeconftest("pytest_plugins = ['pytester']")
    pytester.makepyfile(
        f"""
        import pytest
        from hypothesis import settings

        @pytest.mark.cpu
        def test_loads_another(pytester, monkeypatch):
            monkeypatch.setenv("CI", "true")
            pytester.makeini({TIERS!r})
            pytester.makepyfile({INSIDE!r})
            before = settings.default.derandomize
            pytester.runpytest_inprocess("-p", "fixtures.plugin").assert_outcomes(passed=1)
            assert settings.default.derandomize == before

        @pytest.mark.cpu
        def test_has_the_first():
            assert not settings.default.derandomize
        """
    )
    pytester.runpytest_subprocess("-p", "fixtures.plugin", "-p", "no:randomly").assert_outcomes(passed=2)
