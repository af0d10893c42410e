"""Property: the storage table holds exactly what is alive: each storage once, from its birth to its death."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from fixtures.meters.storages import StorageMode, StorageTable, gradient_of, living_storages, watching_resizes
from fixtures.platforms import playing_rank

pytestmark = pytest.mark.cpu

KIB = 1024


@pytest.fixture
def table() -> Iterator[StorageTable]:
    """A table that sees every operator of the test."""
    table = StorageTable()
    with watching_resizes(table), StorageMode(table):
        yield table


def bytes_of(size: int) -> torch.Tensor:
    """A tensor of that many bytes."""
    return torch.zeros(size, dtype=torch.uint8)


def test_a_storage_counts_from_birth_to_death(table: StorageTable) -> None:
    """The sum is what is alive now; the peak is what was alive at once."""
    first, second = bytes_of(KIB), bytes_of(2 * KIB)
    del second
    third = bytes_of(KIB)
    assert (table.current(), table.peak()) == (2 * KIB, 3 * KIB)
    del first, third
    assert table.current() == 0


def test_views_and_aliases_count_once(table: StorageTable) -> None:
    """A view, a transposed view, a detached alias and an in-place result add nothing, and keep the whole alive."""
    whole = bytes_of(KIB)
    part = whole[1:2]
    others = [whole.view(32, 32).t(), whole.detach(), whole.add_(1), torch.add(whole, 1, out=whole)]
    assert table.current() == KIB
    del whole, others
    assert table.current() == KIB, "a view of one byte keeps its storage"
    del part
    assert table.current() == 0


def test_a_resized_storage_changes_its_size(table: StorageTable) -> None:
    """``resize_(0)`` on the storage, which is how FSDP frees, and ``resize_`` on a tensor are both seen."""
    tensor = bytes_of(KIB)
    tensor.untyped_storage().resize_(0)
    assert table.current() == 0
    tensor.untyped_storage().resize_(3 * KIB)
    assert table.current() == 3 * KIB
    tensor.resize_(5 * KIB)
    assert table.current() == 5 * KIB


def test_resizing_is_watched_no_longer_than_asked() -> None:
    """Leaving ``watching_resizes`` gives back torch's own method, after an exception too."""
    original = torch.UntypedStorage.resize_
    with watching_resizes(StorageTable()):
        assert torch.UntypedStorage.resize_ is not original
    assert torch.UntypedStorage.resize_ is original
    with pytest.raises(ZeroDivisionError), watching_resizes(StorageTable()):
        raise ZeroDivisionError
    assert torch.UntypedStorage.resize_ is original


def test_tensors_made_of_python_and_numpy_values_are_seen(table: StorageTable) -> None:
    """``torch.tensor`` and ``from_numpy`` end in an operator (lift_fresh); ``frombuffer`` does not: a known gap."""
    kept = [torch.tensor([1.0, 2.0]), torch.as_tensor([1, 2, 3]), torch.from_numpy(np.ones(4))]
    assert table.current() == 2 * 4 + 3 * 8 + 4 * 8
    kept.append(torch.frombuffer(bytearray(KIB), dtype=torch.uint8))
    assert table.current() == 2 * 4 + 3 * 8 + 4 * 8


def test_sparse_tensors_count_by_their_parts(table: StorageTable) -> None:
    """A sparse gradient has no storage of its own; its indices and values count."""
    table_of_rows = torch.nn.Embedding(8, 4, sparse=True)
    before = table.current()
    table_of_rows(torch.tensor([1, 2])).sum().backward()
    assert table_of_rows.weight.grad is not None
    assert table_of_rows.weight.grad.is_sparse
    assert table.current() - before == 2 * 8 + 2 * 4 * 4, "two rows: an int64 index and 4 float32 values each"


def test_meta_tensors_count_as_they_would(table: StorageTable) -> None:
    """A tensor without memory counts the bytes that it would take."""
    kept = torch.empty(KIB, 2, device="meta", dtype=torch.float32)
    assert table.current() == 8 * KIB
    del kept


def test_what_autograd_keeps_counts_until_the_graph_is_gone(table: StorageTable) -> None:
    """A tensor that only the graph refers to (saved for backward) is alive; backward frees it."""
    weight = torch.ones(KIB, requires_grad=True)
    loss = (weight.exp().exp()).sum()
    assert table.current() == 4 * (KIB + 2 * KIB + 1)
    loss.backward()  # type: ignore[no-untyped-call]
    assert table.current() == 4 * (KIB + 1 + KIB), "weight, loss, gradient"


def test_a_death_on_another_thread_counts(table: StorageTable) -> None:
    """Autograd's and the backend's threads may drop the last reference."""
    held = [bytes_of(KIB) for _ in range(200)]
    parts = [held[part::4] for part in range(4)]
    threads = [threading.Thread(target=part.clear) for part in parts]
    held.clear()
    for thread in threads:
        thread.start()
    for _ in range(200):
        bytes_of(KIB)
    for thread in threads:
        thread.join()
    assert table.current() == 0


def test_a_reused_address_is_another_storage(table: StorageTable) -> None:
    """Storages that take the place of dead ones, with other sizes, never leave a trace."""
    for size in range(1, 500):
        bytes_of(size)
    assert table.current() == 0
    assert table.peak() == 499


def test_refresh_reads_sizes_that_changed_unseen() -> None:
    """A storage resized while nobody watched has its new size after ``refresh``."""
    table = StorageTable()
    with StorageMode(table):
        tensor = bytes_of(KIB)
    tensor.untyped_storage().resize_(4 * KIB)
    assert table.current() == KIB
    table.refresh()
    assert table.current() == 4 * KIB


def test_a_view_that_may_not_be_asked_counts() -> None:
    """An output of ``unbind`` whose base was changed in place can't say whether it is a leaf: it counts."""
    base = bytes_of(2 * KIB).view(2, KIB).float().requires_grad_().clone()
    views = base.unbind()
    with torch.no_grad():
        base.zero_()
    with pytest.raises(RuntimeError, match="modified inplace"):
        _ = views[0].is_leaf
    assert any(storage.data_ptr() == base.data_ptr() for storage in living_storages())


def test_a_table_begins_with_nothing() -> None:
    """Neither now nor at its peak."""
    assert (StorageTable().current(), StorageTable().peak()) == (0, 0)


def test_a_peak_begins_anew_with_what_is_alive(table: StorageTable) -> None:
    """What was alive before counts no longer, until more is."""
    kept, gone = bytes_of(KIB), bytes_of(2 * KIB)
    del gone
    table.reset_peak()
    assert table.peak() == KIB
    more = bytes_of(1)
    assert table.peak() == KIB + 1
    del kept, more


def test_a_table_knows_whom_it_was_shown(table: StorageTable) -> None:
    """A storage that it was given, while it lives, and no other."""
    known = bytes_of(KIB).untyped_storage()
    assert known in table
    assert torch.UntypedStorage(KIB) not in table  # type: ignore[no-untyped-call]


def test_gradients_live_too() -> None:
    """Of a leaf, though nobody has asked for its gradient, which makes it an object of its own."""
    weight = torch.ones(KIB, requires_grad=True)
    weight.sum().backward()  # type: ignore[no-untyped-call]
    found = {storage.data_ptr() for storage in living_storages()}
    assert weight.grad is not None
    assert {weight.data_ptr(), weight.grad.data_ptr()} <= found


def test_only_a_leaf_is_asked_for_its_gradient() -> None:
    """Of any other tensor torch would warn."""
    weight = torch.ones(2, requires_grad=True)
    doubled = 2 * weight
    doubled.sum().backward()  # type: ignore[no-untyped-call]
    assert gradient_of(weight) is weight.grad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradient_of(doubled) is None


def test_a_wrapper_lives_by_what_it_wraps() -> None:
    """With a DTensor comes the storage of its local tensor, and none of its own, which has no memory."""
    with playing_rank(0, 2):
        mesh = init_device_mesh("cpu", (2,))
        before = list(living_storages())
        sharded = DTensor.from_local(torch.ones(KIB), mesh, [Shard(0)])
        known = {id(storage) for storage in before}
        pointers = {storage.data_ptr() for storage in living_storages() if id(storage) not in known}
    assert pointers == {sharded.to_local().data_ptr()}
