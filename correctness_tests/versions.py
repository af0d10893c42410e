"""Where a torch version answers differently, and the tests that say so."""

from __future__ import annotations

import pytest
import torch

TORCH: tuple[int, ...] = tuple(int(part) for part in torch.__version__.split(".")[:2])
"""Major and minor version of the torch that runs."""


def wrong_on_torch_2_9(reason: str) -> pytest.MarkDecorator:
    """A strict expected failure on 2.9 alone, where it was seen; what 2.10 to 2.12 do was not tried."""
    return pytest.mark.xfail(TORCH == (2, 9), reason=f"torch 2.9: {reason}", strict=True)
