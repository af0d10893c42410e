"""The catalogue of faults applied to whole sessions: the cpu tier as a user runs it, and a rehearsal of the nightly.

``session.py`` runs one session in a process of its own, ``planted.py`` is loaded into it, plants the fault in pytest's
own process too and writes down every failure, ``judge.py`` says what became of the fault, ``matrix.py`` tries all of
them and ``table.py`` shows what came of it. ``python -m correctness_tests.suite.faults`` is the command.

What a run leaves out, unless ``--everything``: ``correctness_tests/suite/``. Those tests try the suite itself with
doubles, on machinery that a fault of torch does not touch, or plant faults of their own
(``test_faults_are_caught.py`` would plant a second one on top); they are two thirds of the tier's time and no claim of
theirs is about the training that a fault spoils. The file of the test that a fault names is run wherever it lies.
"""
