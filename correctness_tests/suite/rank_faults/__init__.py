"""The fault catalogue for ranks: every way in which a rank, or the process that owns it, is known to fail.

``catalogue.py`` is the list, ``jobs.py`` and ``exhaustion.py`` what runs on the ranks, ``trial.py`` what is asked of
each trial; ``owners.py`` has the same for pytest itself. ``python -m correctness_tests.suite.rank_faults --runs 20``
tries each kind so often and prints how many were reported right, how soon, and what they left behind.
"""
