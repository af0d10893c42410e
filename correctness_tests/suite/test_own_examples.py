"""Which examples hypothesis draws is the session's own choice: neither CI nor a session inside a test changes it."""

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


@pytest.mark.parametrize(("profile", "drawn_anew"), [("dev", True), ("ci", False), ("nightly", True)])
def test_a_profile_is_the_same_where_hypothesis_sees_a_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, profile: str, drawn_anew: bool
) -> None:
    """In tox on a CI, hypothesis loads a profile of its own that draws the same each time: no other takes after it."""
    monkeypatch.setenv("__TOX_ENVIRONMENT_VARIABLE_ORIGINAL_CI", "true")
    pytester.makeini(TIERS)
    pytester.makepyfile(
        f"""
        import pytest
        from hypothesis import settings

        @pytest.mark.cpu
        def test_draws():
            assert settings.default.derandomize != {drawn_anew}
        """
    )
    run = pytester.runpytest_subprocess("-p", "fixtures.plugin", "--hypothesis-profile", profile)
    run.assert_outcomes(passed=1)
