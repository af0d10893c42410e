"""The checks on ranks again and again in one pytest process and its pools: what grows from round to round?

``rounds.py`` is the plugin that repeats a session's tests, ``readings.py`` what is read after each round, ``drift.py``
what growth is. ``python -m correctness_tests.suite.soak --rounds 30`` runs it and prints every series.
"""
