"""A step of the ledger written down, so that tests can compare it with one worked out on paper."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from fixtures.ledger.books import Books
from fixtures.ledger.schedules import Schedule


class Diary(Books):
    """Books that also note, in order, where what was taken and freed; buffers of no bytes are left out."""

    def __init__(self, resident: Mapping[str, int]) -> None:
        super().__init__(resident)
        self.entries: list[tuple[str, str]] = []

    def take(self, buffer: str, size: int) -> None:
        """As ``Books`` does."""
        super().take(buffer, size)
        self._note("+", buffer, size)

    def free(self, buffer: str, size: int) -> None:
        """As ``Books`` does."""
        super().free(buffer, size)
        self._note("-", buffer, size)

    def _note(self, sign: str, buffer: str, size: int) -> None:
        if size:
            self.entries.append((self.where, f"{sign}{buffer} {size}"))


def diary_of(schedule: Schedule) -> list[str]:
    """Play the schedule's step: a line a place, ``where: +buffer bytes, -buffer bytes``."""
    diary = Diary(schedule.books.now().buffers)
    schedule.books = diary
    schedule.step()
    return [
        f"{where}: {', '.join(entry for _, entry in entries)}"
        for where, entries in groupby(diary.entries, key=lambda entry: entry[0])
    ]
