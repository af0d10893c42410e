"""Fuzzing of what reads files, names and variables from elsewhere: it loads, or it is one UsageError, and no third.

``loaders.py`` has a target for each; hypothesis tries them in the cpu tier (test_loaders_under_fuzz.py), and
``python -m correctness_tests.suite.fuzz LOADER --minutes M`` tries one for longer, led by the code's own branches
(atheris). ``findings/`` holds every input that once broke a loader, and every one is tried again by the cpu tier.
"""
