"""What a rank writes fills neither the disk nor a message, however much it is and while it is still written."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from fixtures.ranks import launcher
from fixtures.ranks.launcher import TAIL_BYTES, tail, trim

pytestmark = pytest.mark.cpu


class Growing(io.BytesIO):
    """A file to which another process writes a MiB as soon as somebody has asked for its length."""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go there; what is at the end afterwards is news."""
        at = super().seek(offset, whence)
        if whence == os.SEEK_END:
            self.write(b"more" * 2**18)
            super().seek(at)
        return at


def test_tail_of_a_growing_file_is_bounded() -> None:
    """The end of a file that grows while it is read is no longer than the end of one that does not."""
    assert len(tail(Growing(b"x" * 10 * TAIL_BYTES))) <= TAIL_BYTES + len("[...]")


def test_long_output_is_cut_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beyond the bound keeps its end and says that it was cut, and its writer goes on behind that; one within
    it is left alone."""
    monkeypatch.setattr(launcher, "MAX_OUTPUT_BYTES", 10_000)
    path = tmp_path / "rank-0.out"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"x" * 9_000)
        trim(path)
        assert path.stat().st_size == 9_000
        writer.write(b"y" * 2_000 + b"last words")
        trim(path)
        writer.write(b"and more")
    text = path.read_text()
    assert text.startswith("[more than 0 MiB of output were cut here]\n[...]xx")
    assert text.endswith("last words\nand more")
    assert len(text) < TAIL_BYTES + 100


def test_output_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """A rank that has not come so far has no output to cut."""
    trim(tmp_path / "rank-0.out")
