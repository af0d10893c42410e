"""Loads the suite's plugin; everything else lives in ``fixtures/``."""

pytest_plugins = ["fixtures.plugin"]
