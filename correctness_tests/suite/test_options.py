"""Contradictory or impossible options stop the session with one line that names them and the remedy."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.cpu

BAD = [
    (("--from-results", "r", "--rehearse"), "--from-results launches nothing, so --rehearse has no meaning"),
    (("--from-results", "r", "--launches", "4"), "--from-results launches nothing, so --launches has no meaning"),
    (("--platform", "cpu-gloo-4"), "--platform says where a CSV was measured: pass it with --from-results"),
    (("--from-results", "r", "--platform", "solo"), "--platform solo has no meaning: name its key"),
    (("--update-baselines",), "--update-baselines needs a reason"),
    (("--update-baselines", "--reason", "  "), "--update-baselines needs a reason"),
    (("--update-baselines", "--reason", "x", "--rank-patch", "a:b"), "--rank-patch plants a fault"),
    (("--reason", "x"), "--reason and --accept belong to --update-baselines"),
    (("--accept", "x"), "--reason and --accept belong to --update-baselines"),
    (("--update-baselines", "--reason", "x", "--dry-run", "--write-baselines"), "leave one of them out"),
    (("--update-baselines", "--reason", "x", "--accept", "c", "--delete", "c"), "c: accepted and deleted at once"),
    (("--delete", "x"), "--delete belongs to --update-baselines"),
    (("--allow-dirty",), "--allow-dirty belongs to --update-baselines"),
    (("--launches", "6", "--max-launches", "5"), "--max-launches 5 is too few: pass 6 or more"),
    (("--rank-patch", "a:b"), "--rank-patch a:b is applied on ranks, and no check that has any is selected"),
    (("--world-size", "0"), "--world-size 0 is too few: pass 1 or more"),
    (("--launches", "2"), "--launches 2 is too few: pass 3 or more"),
    (("--results", ""), "argument --results: an empty name is no place: name one, or leave the option out"),
    (("--history", ""), "argument --history: an empty name is no place"),
    (("--report", "/dev/null"), "--report /dev/null is a device, which nothing is written over: name a file"),
    (("--timed-steps", "-1"), "--timed-steps -1 is too few: pass 1 or more"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_options_are_refused(pytester: pytest.Pytester, arguments: tuple[str, ...], message: str) -> None:
    """Exit status 4, one message, and no test is run."""
    pytester.makepyfile("import pytest\n@pytest.mark.cpu\ndef test_x(): open('ran', 'w')\n")
    result = pytester.runpytest_inprocess("-p", "fixtures.plugin", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
    assert not (pytester.path / "ran").exists()


def test_help_states_defaults(pytester: pytest.Pytester) -> None:
    """Every option of the suite that has a default says it in ``--help``."""
    text = " ".join(pytester.runpytest_inprocess("-p", "fixtures.plugin", "--help").stdout.str().split())
    for default in ("default: 8, or 4 with --rehearse", "default: 6, or 4 with --rehearse", "default: gpt2-large"):
        assert default in text, f"{default!r} is not in the help text"
