"""A session inside a test does not change which examples hypothesis draws for the tests after it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu


def test_the_next_test_has_the_sessions_profile(pytester: pytest.Pytester) -> None:
    """What a test loads, as a session inside it does, ends with the test."""
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(
        """
        from hypothesis import settings

        settings.register_profile("other", derandomize=not settings.default.derandomize)
        BEFORE = settings.default.derandomize

        def test_loads_another():
            settings.load_profile("other")
            assert settings.default.derandomize != BEFORE

        def test_has_the_first():
            assert settings.default.derandomize == BEFORE
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=2)
