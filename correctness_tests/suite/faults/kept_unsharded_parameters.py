"""FSDP2 never frees the parameters that it gathered: after each step a rank still holds the whole model.

Must fail: the memory checks of a rehearsal, ``pytest perf_tests -m gpu --rehearse --rank-patch ...``, with fsdp2 named
as the arm that moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fixtures.torch_internals import patch_fully_shard


def apply() -> None:
    """Plant the fault in this rank."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda tensor: None

    patch_fully_shard("free_storage", replace)
