"""Whole sessions in strange surroundings, and their sockets watched.

``surroundings.py`` lists them and runs a session in one; ``sockets.py`` watches every process of a session;
``python -m correctness_tests.suite.sessions`` tries each and prints what came of it.
"""
