"""A part of a long matrix, so that several machines can try it side by side."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """One of ``count`` parts, the first of which is 1."""

    number: int
    count: int

    def of(self, whole: Sequence[T]) -> list[T]:
        """``2/4``: every fourth from the second on."""
        return list(whole[self.number - 1 :: self.count])


def part(text: str) -> Part:
    """``2/4`` as a command line has it; argparse's error for anything but a part of a whole."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: 1/4 to 4/4 are the quarters")
    return Part(int(number), int(count))
