"""Factories of workloads that end the process, or wait for ever, where they are called."""

from __future__ import annotations

import os
import sys

from fixtures.workloads import Workload, mlp


def ends_the_process() -> Workload:
    """End the process as if all were well."""
    os._exit(0)


def exits() -> Workload:
    """Ask Python to exit."""
    sys.exit(0)


def has_a_lost_small_size() -> Workload:
    """Name a small size that does not exist."""
    from dataclasses import replace

    return replace(mlp(), rehearsal="nonesuch")
