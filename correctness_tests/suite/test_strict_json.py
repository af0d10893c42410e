"""A file that a person edited or a stranger sent is read whole, or refused with one line that says where and why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from fixtures.errors import UsageError
from fixtures.gate.strict_json import Document, RefusedFileError, parse_json, read_bounded, read_json

pytestmark = pytest.mark.cpu

PATH = Path("a/file.json")


class Inner(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(extra="forbid")
    size: int
    name: str = ""


class Outer(BaseModel):
    """A record."""

    parts: dict[str, Inner]
    rows: list[Inner] = []


def said(text: str) -> str:
    """The complaint about this text, without its path and its remedy."""
    with pytest.raises(UsageError) as caught:
        parse_json(PATH, text, remedy="Mend it.")
    words = str(caught.value)
    start, end = f"{PATH}: ", ". The file was left as it is. Mend it."
    assert words.startswith(start)
    assert words.endswith(end)
    return words[len(start) : -len(end)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, -2.5, null, true, "x"]}', {"a": [1, -2.5, None, True, "x"]}),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        ("1e308", 1e308),
        (r'"\ud83d\ude00 \u00e9"', "\U0001f600 é"),
        (r'"\\ud800"', r"\ud800"),  # a backslash, and letters
    ],
    ids=["a tree", "largest", "smallest", "a float", "a pair of surrogates", "a backslash"],
)
def test_what_json_can_hold_is_read_exactly(text: str, value: Any) -> None:
    """Integers of 64 bits, floats, pairs of surrogates; and the text is kept beside its value."""
    document = parse_json(PATH, text, remedy="")
    assert (document.value, document.text) == (value, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":\n  x}', "line 2 column 3: broken JSON: Expecting value"),
        ("", "line 1 column 1: broken JSON: Expecting value"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' appears twice in one object"),
        (f'{{"{"k" * 90}": 1, "{"k" * 90}": 1}}', f"the key '{'k' * 80}' appears twice in one object"),
        ("NaN", "NaN is not a number that JSON or a baseline can hold"),
        ("[-Infinity]", "-Infinity is not a number that JSON or a baseline can hold"),
        ("1e999", "the number 1e999 is too large"),
        (f"-{'9' * 400}.0", f"the number -{'9' * 39} is too large"),
        (str(2**63), "the integer 9223372036854775808 is beyond 64 bits"),
        (str(-(2**63) - 1), "the integer -9223372036854775809 is beyond 64 bits"),
        ("7" * 5000, f"the integer {'7' * 40} is beyond 64 bits"),
        (r'{"a": "\ud800"}', "a text in it has half of a surrogate pair, which can't be written"),
        (r'{"\uDFFF": 1}', "a text in it has half of a surrogate pair, which can't be written"),
    ],
    ids=[
        "missing value",
        "nothing",
        "deep",
        "twice",
        "long key twice",
        "NaN",
        "infinity",
        "overflow",
        "long overflow",
        "above 64 bits",
        "below 64 bits",
        "endless",
        "half a pair",
        "other half",
    ],
)
def test_what_it_cannot_hold_is_refused(text: str, words: str) -> None:
    """One line, with place or value, cut where it would fill the screen."""
    assert said(text) == words


TREE = """\
{
  "parts": {
    "size": {"size": 1},
    "b": {
      "name": "x",
      "size": 2
    }
  },
  "rows": []
}"""


def complaint(old: str, new: str, *more: tuple[str, str]) -> str:
    """What validation says of the tree with a text put in another's place."""
    text = TREE
    for before, after in ((old, new), *more):
        assert before in text
        text = text.replace(before, after)
    with pytest.raises(UsageError) as caught:
        parse_json(PATH, text, remedy="Mend it.").validate(Outer)
    return str(caught.value).removeprefix(f"{PATH}: ").removesuffix(". The file was left as it is. Mend it.")


def test_a_sound_tree_is_its_record() -> None:
    """Nothing is converted on the way."""
    assert parse_json(PATH, TREE, remedy="").validate(Outer).parts["b"] == Inner(size=2, name="x")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"size": 2', '"size": "2"', "parts > b > size (line 6): Input should be a valid integer"),
        ('"size": 2', '"sizes": 2', "parts > b > size (line 4): Field required (and 1 more)"),
        ('"name": "x"', '"name": 3', "parts > b > name (line 5): Input should be a valid string"),
        (
            '"rows": []',
            '"rows": [{"size": 1}, {"size": true}]',
            "rows > 1 > size (line 9): Input should be a valid integer",
        ),
        ('"rows": []', f'"{"k" * 99}": 1, "rows": 3', "rows (line 9): Input should be a valid list"),
        ('"parts"', '"part"', "parts (line 1): Field required"),
    ],
)
def test_a_fault_is_named_with_its_line(old: str, new: str, words: str) -> None:
    """The way to the field and the line where it stands (where one is missing, of what it is missing in)."""
    assert complaint(old, new) == words


def test_of_names_that_repeat_the_one_on_the_way_is_meant() -> None:
    """The first after what it lies in; and lines count from the first, blank or not."""
    assert complaint('{"size": 1}', '{"size": "x"}').startswith("parts > size > size (line 3): ")
    assert complaint('"size": 2', '"sizes": 2', ('"rows": []', '"rows": [{"size": 1}]')).startswith(
        "parts > b > size (line 4): Field required"
    )
    assert complaint('{\n  "parts"', '\n{\n  "parts"', ('"size": 2', '"size": "2"')).startswith(
        "parts > b > size (line 7)"
    )


class Even(BaseModel):
    """A record with a rule of its own."""

    size: int

    @field_validator("size")
    @classmethod
    def _even(cls, size: int) -> int:
        if size % 2:
            raise ValueError("must be even")
        return size


def test_a_rule_speaks_for_itself() -> None:
    """Its words stand without pydantic's."""
    with pytest.raises(UsageError, match=r"json: size \(line 1\): must be even\. The file"):
        parse_json(PATH, '{"size": 3}', remedy="").validate(Even)


def test_a_long_name_is_cut() -> None:
    """80 characters of each part of the way."""
    assert complaint('"b": {', f'"{"k" * 99}": {{', ('"size": 2', '"size": null')).startswith(
        f"parts > {'k' * 80} > size (line 6): "
    )


def test_what_is_no_object_has_no_place() -> None:
    """The file as a whole is wrong, and its own validator's words stand without pydantic's prefix."""
    with pytest.raises(UsageError) as caught:
        parse_json(PATH, "3", remedy="Mend it.").validate(Outer)
    assert str(caught.value).startswith(f"{PATH}: Input should be ")


@pytest.mark.parametrize("value", [{"format": 1}, {"format": 2}, {}, [], None, {"format": "2"}])
def test_formats_up_to_the_newest_go_on(value: Any) -> None:
    """What is no number at all is for the record to refuse."""
    Document(PATH, "", value, "").check_format(2)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (True, "a/file.json: format: must be a number. The file was left as it is. Mend it."),
        (
            3,
            "a/file.json: format 3 was written by a newer Shardgate; this one reads up to format 2. The file was left "
            "as it is. Update Shardgate, or restore the file's last version in format 2.",
        ),
    ],
)
def test_a_newer_format_is_refused(found: Any, words: str) -> None:
    """With the remedy that fits it."""
    with pytest.raises(UsageError) as caught:
        Document(PATH, "", {"format": found}, "Mend it.").check_format(2)
    assert str(caught.value) == words


def test_a_file_is_called_by_its_platform() -> None:
    """A copy under another name would speak for a machine that it knows nothing of."""
    document = Document(Path("x/cpu-gloo-4.json"), "", None, "Mend it.")
    document.check_name("cpu-gloo-4", ".json")
    with pytest.raises(
        UsageError, match=r"platform: its key is cpu-gloo-8, so the file must be called cpu-gloo-8\.json"
    ):
        document.check_name("cpu-gloo-8", ".json")


def refused(path: Path, max_bytes: int = 100) -> str:
    """Why a file is not read."""
    with pytest.raises(RefusedFileError) as caught:
        read_bounded(path, max_bytes)
    return str(caught.value)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """Exactly so many bytes are read; one more is refused, with both numbers."""
    path = tmp_path / "x"
    path.write_bytes(b"a" * 100)
    assert read_bounded(path, 100) == b"a" * 100
    assert refused(path, 99) == "100 bytes, more than the 99 that such a file may have"


def test_a_file_without_a_size_is_read_in_pieces_up_to_its_limit() -> None:
    """Files of /proc say that they hold nothing: what is read counts."""
    path = Path("/proc/self/maps")
    assert read_bounded(path, 10**7).endswith(b"\n")
    assert refused(path, 50) == "51 bytes, more than the 50 that such a file may have"


def test_pieces_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that gives a few bytes at a time gives the same file."""
    (tmp_path / "x").write_bytes(bytes(range(100)))
    read = os.read
    monkeypatch.setattr(os, "read", lambda handle, size: read(handle, min(size, 7)))
    assert read_bounded(tmp_path / "x", 100) == bytes(range(100))


def test_links_stay_in_their_folder(tmp_path: Path) -> None:
    """One to a neighbour is read; one that leads out is refused, wherever it ends."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("secret")
    (tmp_path / "in/own").write_text("own")
    (tmp_path / "in/near").symlink_to("own")
    (tmp_path / "in/far").symlink_to("../out")
    assert read_bounded(tmp_path / "in/near", 100) == b"own"
    assert refused(tmp_path / "in/far") == "this is a symbolic link that leads out of its folder"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to, and nothing at all."""
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path) == refused(tmp_path / "pipe") == "this is not a regular file"
    assert refused(tmp_path / "none") == "there is no such file"


def refusal(path: Path) -> str:
    """What reading a file says, without its path and its remedy."""
    with pytest.raises(UsageError) as caught:
        read_json(path, remedy="Mend it.", max_bytes=100)
    return str(caught.value).removeprefix(f"{path}: ").removesuffix(". The file was left as it is. Mend it.")


def test_every_refusal_is_one_line_with_path_and_remedy(tmp_path: Path) -> None:
    """Whatever stands in the way: no file, other bytes than UTF-8, links in a circle, a name that can't be one."""
    path = tmp_path / "x.json"
    assert refusal(path) == "there is no such file"
    path.write_bytes(b'{"a": "\xff"}')
    assert refusal(path) == "byte 7: this is not UTF-8"
    assert refusal(path / "below") == "can't be read: Not a directory"
    path.write_text("x")
    assert refusal(path) == "line 1 column 1: broken JSON: Expecting value"
    path.unlink()
    path.symlink_to(path)
    assert refusal(path).startswith("can't be read: ")
    assert refusal(Path("zero\0byte")) == "can't be read: embedded null byte"
