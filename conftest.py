"""Loads the suite's plugin, and pytester for the tests of the suite itself; everything else lives in ``fixtures/``."""

pytest_plugins = ["fixtures.plugin", "pytester"]
