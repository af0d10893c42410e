"""The command that a message repeats starts the same session again, wherever it is pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from fixtures.commands import session_command
from fixtures.options import SUITE, Options, add_options
from fixtures.report.messages import accept_command

pytestmark = pytest.mark.cpu

SESSIONS = [
    "--rehearse",
    "--rehearse --world-size 2 --launches 3 --timed-steps 2 --deadline 30",
    "--workload my.models:factory --baselines '/a folder/of mine' --max-launches 12 --max-minutes 22.5",
    "--rehearse --rank-patch faults.slow:apply",
    "--from-results 'one night' another --platform cuda-nccl-8--nvidia-h100",
    "--rehearse --history off",
    "--rehearse --platform solo",
    "--platform solo --world-size 4 --profile on",
    "--rehearse --profile on",
    "--profile off",
    "--from-results one --history 'all nights.sqlite'",
]


def options_of(arguments: list[str]) -> Options:
    """The session's options, read as pytest reads them."""
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    return Options.of(_Config(parser.parse_known_args(arguments)))  # type: ignore[arg-type]


class _Config:
    """As much of pytest's config as options are read from."""

    def __init__(self, values: object) -> None:
        self.values = values

    def getoption(self, name: str) -> object:
        """The value of an option, by its name on the command line."""
        return getattr(self.values, {"--platform": "platform"}.get(name, name.lstrip("-").replace("-", "_")))


@pytest.mark.parametrize("arguments", SESSIONS)
def test_repeated_command_gives_the_same_options(arguments: str) -> None:
    """Read again, the command's words give the very options that it was made from."""
    options = options_of(shlex.split(arguments))
    words = shlex.split(" ".join(session_command(options)))
    assert words[:1] + words[2:4] == ["pytest", "-m", "gpu"]
    assert options_of(words[4:]) == options


def test_command_names_the_checks_from_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Started elsewhere, the command names the suite's perf_tests by its whole path."""
    monkeypatch.chdir(tmp_path)
    assert shlex.split(session_command(options_of(["--rehearse"]))[1]) == [str(SUITE / "perf_tests")]


def test_solo_results_are_accepted_by_their_folder() -> None:
    """The command that accepts what one device measured names the folder, which says where it is from."""
    command = session_command(options_of(["--rehearse", "--platform", "solo"]))
    accepted = " ".join(accept_command(command, [Path("night")]))
    assert "--from-results night" in accepted
    assert "--platform" not in accepted
