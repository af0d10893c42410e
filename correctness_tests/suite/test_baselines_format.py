"""Older files are read as what they meant; entries keep their launches; a deletion leaves its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from correctness_tests.suite.synthetic import ARMS, Job, accepted
from fixtures.errors import UsageError
from fixtures.gate.baselines import BaselineFile, accepted_elsewhere, load_baseline, render, write_baseline
from fixtures.gate.comparisons import compare
from fixtures.gate.proposals import Asked, Proposal, propose

pytestmark = pytest.mark.cpu

CASE = "gpt2-rehearsal/fsdp2:ddp/resident"
OLD = accepted(Job(own_sd=0.01))


def format_1(file: BaselineFile) -> dict[str, Any]:
    """The file as the first format had it."""
    tree: dict[str, Any] = json.loads(render(file))
    tree["format"] = 1
    for entry in tree["entries"].values():
        entry.pop("nights")
        entry.pop("anchor", None)
        for record in (entry, *entry["history"]):
            record["steps"].pop("loop")
    return tree


def updated(factor: float, file: BaselineFile, **asked: Any) -> Proposal:
    """What another night of that many bytes proposes."""
    job = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=factor)}, own_sd=0.01)
    return propose(compare(job.measurements(), file, True), file, Asked("a reason", **asked))


def test_first_format_is_read(tmp_path: Path) -> None:
    """A file of format 1 loads as format 2, its oldest figure the anchor, and is left as it is until it is updated."""
    file = updated(1.04, OLD).file
    assert file is not None
    path = tmp_path / "cpu-gloo-4.json"
    path.write_text(before := json.dumps(format_1(file)))
    loaded = load_baseline(path)
    assert loaded.entries[CASE].origin.ratio == pytest.approx(2 / 12, rel=1e-5)
    assert path.read_text() == before
    write_baseline(tmp_path, loaded, replaces=loaded)
    assert json.loads(path.read_text())["format"] == 2


def test_what_was_accepted_before_is_a_line() -> None:
    """In an entry's block: its fields, a line each, then its past, newest first, a line each."""
    file = updated(1.04, updated(1.02, OLD).file or OLD).file
    assert file is not None
    lines = render(file).splitlines()
    block = lines[lines.index(f'    "{CASE}": {{') + 1 :]
    at = block.index('      "history": [')
    assert all(line.startswith('      "') for line in block[:at])
    then = [line.partition(",")[0] for line in block[at + 1 : at + 3]]
    assert then == ['        {"ratio": 0.17', '        {"ratio": 0.166667']
    assert block[at + 3 : at + 5] == ["      ]", "    },"]


@pytest.mark.parametrize("broken", [{"format": 1}, {"format": 1, "entries": {"x": []}}, {"format": 1, "entries": 3}])
def test_broken_first_format_is_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    """What is no file of format 1 either is a UsageError, not a crash on the way."""
    path = tmp_path / "cpu-gloo-4.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(UsageError, match=str(path)):
        load_baseline(path)


@pytest.mark.parametrize(
    ("nights", "words"), [([[0.16, 0.17]], "pairs is 6, but its nights hold 2"), ([[0.2] * 6], "not the mean")]
)
def test_launches_must_bear_the_ratio(tmp_path: Path, nights: list[list[float]], words: str) -> None:
    """An entry whose launches don't give its ratio was edited by hand: refused."""
    tree = json.loads(render(OLD))
    tree["entries"][CASE]["nights"] = nights
    path = tmp_path / "cpu-gloo-4.json"
    path.write_text(json.dumps(tree))
    with pytest.raises(UsageError, match=words):
        load_baseline(path)


def test_deletion_leaves_its_reason(tmp_path: Path) -> None:
    """A deleted entry is gone, and the file says what it was, when and why; the others are as they would have been."""
    proposal = updated(1.0, OLD, delete=frozenset({CASE}))
    assert proposal.file is not None
    path = write_baseline(tmp_path, proposal.file, replaces=None)
    file = load_baseline(path)
    assert CASE not in file.entries
    assert [(gone.case, gone.reason) for gone in file.deleted] == [(CASE, "a reason")]
    assert file.deleted[0].ratio == pytest.approx(2 / 12, rel=1e-5)
    assert [row.case_id for row in proposal.rows if row.action == "deleted"] == [CASE]


def test_unknown_deletion_is_refused() -> None:
    """A misspelled case is an error that lists the entries."""
    with pytest.raises(UsageError, match=f"no entry is called nonsense.*{CASE}"):
        updated(1.0, OLD, delete=frozenset({"nonsense"}))


def test_uncommitted_changes_are_refused_unless_meant() -> None:
    """Figures of a dirty tree are refused case by case; where they are meant, the entry says that it was dirty."""
    job = Job({**ARMS, "fsdp2": ARMS["fsdp2"].scaled(resident=1.04)})
    launches = [
        m.model_copy(update={"provenance": m.provenance.model_copy(update={"dirty": m.order == 7})})
        for m in job.measurements()
    ]
    found = compare(launches, None, False)
    refused = propose(found, None, Asked("x"))
    assert (refused.file, {row.action for row in refused.rows if row.note.startswith("measured with")}) == (
        None,
        {"refused"},
    )
    meant = propose(found, None, Asked("x", allow_dirty=True)).file
    assert meant is not None
    assert meant.entries[CASE].provenance.dirty is True


def test_code_that_changed_meanwhile_is_refused() -> None:
    """Launches of one night at two commits are judged and never accepted; two nights at a commit each are."""
    launches = [
        m.model_copy(
            update={"provenance": m.provenance.model_copy(update={"commit": "abc" if m.launch < 3 else "def"})}
        )
        for m in Job().measurements()
    ]
    nights = [m.model_copy(update={"night": m.launch // 3}) for m in launches]
    actions = []
    for made in (launches, nights):
        rows = propose(compare(made, OLD, False), OLD, Asked("x")).rows
        actions.append(next((row.action, row.note) for row in rows if row.case_id == CASE))
    assert actions[0] == ("refused", "the code changed while it was measured: commits abc / def")
    assert actions[1][0] == "updated"


def test_other_platforms_are_shown_and_never_judge(tmp_path: Path) -> None:
    """Where this platform has nothing, another's ratio stands beside NO_BASELINE; a broken file is passed over."""
    for world in (8, 16):
        platform = OLD.platform.model_copy(update={"world_size": world})
        write_baseline(tmp_path, OLD.model_copy(update={"platform": platform}), replaces=None)
    (tmp_path / "cpu-gloo-16.json").write_text("{")
    elsewhere = accepted_elsewhere(tmp_path, "cpu-gloo-4")
    found = next(c for c in compare(Job().measurements(), None, True, elsewhere=elsewhere) if c.case.id == CASE)
    assert (found.judgement.verdict, found.fails, found.baseline) == ("NO_BASELINE", True, None)
    assert found.elsewhere == {"cpu-gloo-8": pytest.approx(2 / 12, rel=1e-5)}


def test_other_version_of_the_loop_has_no_baseline() -> None:
    """After the measuring loop changed, the entry speaks of something else, and both versions are named."""
    settings = Job().settings.model_copy(update={"loop": 2})
    found = compare(Job(settings=settings).measurements(), OLD, True)[0]
    assert "version of the loop 1 then, 2 now" in found.judgement.reason
