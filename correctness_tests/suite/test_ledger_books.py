"""Property: the books of a step know what is held, when it was most, and refuse to free what is not held."""

from __future__ import annotations

import pytest

from fixtures.ledger.books import Books, Moment

pytestmark = pytest.mark.cpu


def test_a_moment_is_the_sum_of_its_buffers() -> None:
    """Bytes of all buffers together."""
    assert Moment("AdamW", {"parameters": 8, "moments": 16}).bytes == 24


def test_books_open_with_what_is_resident() -> None:
    """A phase in which nothing was taken was at its fullest from the start."""
    books = Books({"parameters": 8, "batch": 0})
    books.mark("forward")
    assert books.moments == {
        "peak_forward": Moment("start", {"parameters": 8}),
        "after_forward": Moment("end of forward", {"parameters": 8}),
    }


def test_each_phase_has_a_peak_of_its_own() -> None:
    """Taken up to 8 + 5 bytes and freed again; the next phase begins with what the first ended with."""
    books = Books({"parameters": 8})
    books.where = "gather"
    books.take("gathered units", 2)
    books.take("gathered units", 3)
    books.free("gathered units", 3)
    books.mark("forward")
    books.where = "reduce"
    books.take("gradients", 1)
    books.mark("backward")
    assert books.moments == {
        "peak_forward": Moment("gather", {"parameters": 8, "gathered units": 5}),
        "after_forward": Moment("end of forward", {"parameters": 8, "gathered units": 2}),
        "peak_backward": Moment("reduce", {"parameters": 8, "gathered units": 2, "gradients": 1}),
        "after_backward": Moment("end of backward", {"parameters": 8, "gathered units": 2, "gradients": 1}),
    }


def test_of_equal_peaks_the_first_is_told() -> None:
    """What is held as high a second time does not move the moment."""
    books = Books({})
    for where in ("block 0", "block 1"):
        books.where = where
        books.take("gathered units", 5)
        books.free_all("gathered units")
    books.mark("forward")
    assert books.moments["peak_forward"].where == "block 0"


def test_books_do_not_free_what_is_not_held() -> None:
    """A schedule that frees more than it took is an error that names the moment and the buffer."""
    books = Books({"parameters": 8})
    books.where = "reduce of block 2"
    with pytest.raises(ValueError, match=r"reduce of block 2: 9 bytes of parameters freed, 8 held"):
        books.free("parameters", 9)


def test_all_that_is_held_may_be_freed() -> None:
    """To the last byte; a buffer of which nothing was taken is freed of nothing."""
    books = Books({"parameters": 8})
    books.free("parameters", 8)
    books.free_all("gradients")
    assert books.now().buffers == {}
