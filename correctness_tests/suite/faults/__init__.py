"""Faults: small patches of torch that simulate real regressions, each caught by the test that its docstring names.

Each module has an ``apply()`` for a pool's ``rank_patch``, for example
``RankPool(platform, rank_patch="correctness_tests.suite.faults.unaveraged_gradients:apply")``. It stays for the life of
the process.
"""
