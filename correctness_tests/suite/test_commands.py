"""The command that a message repeats starts the same session again, wherever it is pasted."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.folder_options import SUITE
from fixtures.options import Options, add_options
from fixtures.report.messages import accept_command
from fixtures.session.commands import budget_command, session_command

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
    "--rehearse --no-bandwidth",
    "perf_tests -m gpu -k 'fsdp1 and not step' --rehearse",
    "'perf_tests/test_memory_ratios.py::test_memory_ratio[peak-fsdp2:ddp]' perf_tests/test_collectives.py --rehearse",
    "-m 'gpu and not fsdp1' --rehearse --deselect 'perf_tests/test_no_growth.py::a b' --ignore-glob '*/test_x*.py'",
]


def options_of(arguments: list[str]) -> Options:
    """The session's options, read as pytest reads them."""
    parser = pytest.Parser(_ispytest=True)
    ours = parser.getgroup("pytest's own")
    ours._addoption("-k", dest="keyword", default="")
    ours._addoption("-m", dest="markexpr", default="")
    for option in ("--deselect", "--ignore", "--ignore-glob"):
        parser.addoption(option, action="append")
    add_options(parser)
    return Options.of(_Config(parser.parse_known_args(arguments)))  # type: ignore[arg-type]


class _Config:
    """As much of pytest's config as options are read from."""

    def __init__(self, values: Any) -> None:
        self.values, self.args = values, values.file_or_dir or ["."]
        self.invocation_params = SimpleNamespace(dir=Path.cwd())

    def getoption(self, name: str) -> object:
        """The value of an option, by its name on the command line."""
        return getattr(self.values, {"--platform": "platform"}.get(name, name.lstrip("-").replace("-", "_")))


@pytest.mark.parametrize("arguments", SESSIONS)
def test_repeated_command_gives_the_same_options(arguments: str) -> None:
    """Read again, the command's words give the very options that it was made from, and the same selection of tests."""
    options = options_of(shlex.split(arguments))
    if not options.chosen.markers:
        options = replace(options, chosen=replace(options.chosen, markers="gpu"))
    words = shlex.split(" ".join(session_command(options)))
    assert words[0] == "pytest"
    assert options_of(words[1:]) == options


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "perf_tests -m gpu"),
        (". -m gpu", "perf_tests -m gpu"),
        ("correctness_tests perf_tests/test_collectives.py", "perf_tests/test_collectives.py -m gpu"),
        ("perf_tests perf_tests/test_collectives.py", "perf_tests -m gpu"),
        ("-m 'cpu or gpu'", "perf_tests -m 'gpu and (cpu or gpu)'"),
        ("-m '(cpu)or(gpu)'", "perf_tests -m 'gpu and ((cpu)or(gpu))'"),
        ("-m fsdp1", "perf_tests -m 'gpu and (fsdp1)'"),
        ("-m 'not fsdp1'", "perf_tests -m 'gpu and (not fsdp1)'"),
        ("-m 'gpu and not fsdp1'", "perf_tests -m 'gpu and not fsdp1'"),
    ],
)
def test_command_selects_the_checks_of_its_tier(given: str, told: str) -> None:
    """Of paths and marks, what lies in perf_tests and is of the tier: no more than the session judged."""
    assert " ".join(session_command(options_of([*shlex.split(given), "--rehearse"]))) == f"pytest {told} --rehearse"


def test_budgets_keep_the_selection_too() -> None:
    """Their command narrows the session's ``-k`` and takes no mark of the other tier."""
    options = options_of(shlex.split("perf_tests -m cpu -k 'host or traffic'"))
    assert " ".join(budget_command(options)) == "pytest perf_tests -m cpu -k 'host or traffic'"
    narrower = "pytest perf_tests -m cpu -k '(accepted) and (host or traffic)'"
    assert " ".join(budget_command(options, "accepted")) == narrower


def test_what_accepts_selects_what_was_judged() -> None:
    """The command that accepts stored launches keeps paths, marks, -k and what was left out, quoted for a shell."""
    given = "perf_tests -m 'gpu and not fsdp1' -k 'resident and ddp' --deselect 'a b' --rehearse --launches 3"
    told = accept_command(session_command(options_of(shlex.split(given))), [Path("one night")])
    assert " ".join(told) == (
        "pytest perf_tests -m 'gpu and not fsdp1' -k 'resident and ddp' --deselect 'a b' --from-results 'one night' "
        '--update-baselines --reason "..."'
    )


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
