"""What several faults of FSDP2 have in common; no fault itself, as the name says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fixtures.torch_internals import patch_fully_shard

Wrapped = Callable[..., Any]

_under_way: list[Any] = []
"""Works and tensors, so that their memory stays theirs."""


def not_awaited(collective: str) -> None:
    """FSDP2 does not wait for this collective, ``all_gather`` or ``reduce_scatter``, and reads its output at once."""

    def replace(original: Wrapped) -> Wrapped:
        def unawaited(comm: Any, output_tensor: Any, input_tensor: Any, group: Any, **kwargs: Any) -> None:
            work = original(comm, output_tensor, input_tensor, group, **{**kwargs, "async_op": True})
            _under_way.append((work, output_tensor, input_tensor))

        return unawaited

    patch_fully_shard(collective, replace)


def kept_in_backward(reducing: Callable[[Wrapped, list[Any]], Wrapped]) -> None:
    """FSDP2's reduction of a unit keeps what ``reducing(original, kept)`` puts into the list, until backward ends."""
    kept: list[Any] = []

    def release(original: Wrapped) -> Wrapped:
        def finalize_backward(group: Any) -> None:
            kept.clear()
            original(group)

        return finalize_backward

    patch_fully_shard("reduce", lambda original: reducing(original, kept))
    patch_fully_shard("finalize_backward", release)
