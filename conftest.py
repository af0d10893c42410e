"""Loads the suite's plugin, and pytester for the tests of the suite itself; everything else lives in ``fixtures/``."""

import atexit
import gc

pytest_plugins = ["fixtures.plugin", "pytester"]

# Else the interpreter's end looks through all that torch has imported: most of a second, in every session.
atexit.register(gc.freeze)
