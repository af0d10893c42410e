"""The workflows that a team can copy name environments and options that exist; what a person types is text."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from correctness_tests.suite.test_commands import options_of

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")
}
TOX = configparser.ConfigParser(interpolation=None)
TOX.read(ROOT / "tox.ini")

OURS = ("tox", "bash .ci/run")
OTHERS = ("pip install tox", "git ", "gh ")
"""Commands of others, which their own tests cover."""

PYTESTS_OWN = ("--junitxml",)


def steps(name: str) -> list[dict[str, Any]]:
    """Every step of every job."""
    return [step for job in WORKFLOWS[name]["jobs"].values() for step in job["steps"]]


def commands() -> list[tuple[str, str]]:
    """Each line that a workflow runs, once."""
    lines = [(name, line) for name in WORKFLOWS for step in steps(name) for line in step.get("run", "").splitlines()]
    return list(dict.fromkeys(lines))


def expanded(line: str, **variables: str) -> list[str]:
    """The words that tox is called with when bash runs this line."""
    script = 'tox() { printf "%s\\0" "$@"; }\n' + line
    environment = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(["bash", "-euc", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


TOX_LINES = [(name, line) for name, line in commands() if line.startswith("tox ")]


@pytest.mark.parametrize(("name", "line"), commands())
def test_every_command_is_known(name: str, line: str) -> None:
    """A command is one of the suite's, or one that is everybody's."""
    assert line.startswith((*OURS, *OTHERS)), f"{name}.yml: {line}"
    for word in shlex.split(line):
        if word.startswith(".ci/"):
            assert (ROOT / word).is_file()


@pytest.mark.parametrize(("name", "line"), TOX_LINES)
def test_environment_and_options_exist(name: str, line: str) -> None:
    """``tox -e`` names an environment of tox.ini, and what follows ``--`` is what its command takes."""
    words = expanded(line, REASON="a reason", ACCEPT="gpt2-large/fsdp2:ddp/step", PART="1/6")
    assert words[0] == "-e"
    section = f"testenv:{words[1]}"
    assert section in TOX.sections(), f"{name}.yml: no environment {words[1]}"
    given, command = words[3:], TOX[section]["commands"]
    assert not given or ("{posargs}" in command and words[2] == "--")
    if command.startswith("pytest"):
        place = next((i for i, word in enumerate(given) if word in PYTESTS_OWN), len(given))
        options_of([*given[:place], *given[place + 2 :]])
        parser_options = {word for word in given if word.startswith("--")}
        assert parser_options <= {*PYTESTS_OWN, *known_options()}
    else:
        module = re.search(r"python -m ([\w.]+)", command)
        assert module is not None
        text = "".join(path.read_text(encoding="utf-8") for path in sources(module[1]))
        assert [word for word in given if word.startswith("--") and f'"{word}"' not in text] == []


def known_options() -> set[str]:
    """Every option of the suite."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "fixtures").glob("*options*.py"))
    return set(re.findall(r'"(--[a-z-]+)"', text))


def sources(module: str) -> list[Path]:
    """The files in which a module that is run keeps its options."""
    path = ROOT / module.replace(".", "/")
    found = [file for file in (path.with_suffix(".py"), path / "__main__.py") if file.is_file()]
    assert found, f"there is no module {module}"
    return found


@pytest.mark.parametrize("name", WORKFLOWS)
def test_each_has_least_rights_and_an_end(name: str) -> None:
    """Rights are stated, each job has a time limit, and each action a version."""
    assert WORKFLOWS[name]["permissions"]["contents"] == ("write" if name == "update-baselines" else "read")
    assert all(job["timeout-minutes"] <= 120 for job in WORKFLOWS[name]["jobs"].values())
    assert all(re.fullmatch(r"[\w/-]+@v\d+", step["uses"]) for step in steps(name) if "uses" in step)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_typed_becomes_shell(name: str) -> None:
    """No ``${{ }}`` stands in a command: what comes from outside reaches the shell in a variable."""
    assert [step["run"] for step in steps(name) if "${{" in step.get("run", "")] == []


def test_reason_is_one_argument() -> None:
    """A reason with quotes, dollars and semicolons is one word; without an accepted case there is no ``--accept``."""
    (line,) = [line for name, line in TOX_LINES if name == "update-baselines" and "--update-baselines" in line]
    nasty = "torch 2.14\"; $(touch x) `id` ' #"
    words = expanded(line, REASON=nasty, ACCEPT="")
    assert words[words.index("--reason") + 1] == nasty
    assert "--accept" not in words
    words = expanded(line, REASON="r", ACCEPT="a case; id")
    assert words[words.index("--accept") + 1] == "a case; id"
    assert "--write-baselines" in words  # in CI an update is a dry run otherwise


def test_nightly_fails_on_a_verdict_and_keeps_what_it_measured() -> None:
    """The measuring step may fail the job; the page, summary, history and launches are kept whether it does or not."""
    gpu = WORKFLOWS["nightly"]["jobs"]["gpu"]["steps"]
    measured = next(index for index, step in enumerate(gpu) if "tox -e gpu" in step.get("run", ""))
    assert not any("continue-on-error" in step or "|| true" in step.get("run", "") for step in gpu)
    for words in (("--max-launches", "--max-minutes", "--results"), ("--junitxml",)):
        assert all(word in gpu[measured]["run"] for word in words)
    assert "--report" in TOX["testenv:gpu"]["commands"]
    kept = [step for step in gpu[measured + 1 :] if step.get("if") == "always()"]
    assert [step.get("uses", "").partition("@")[0] for step in kept] == [
        "",
        "actions/cache/save",
        "actions/upload-artifact",
    ]
    assert kept[1]["with"]["path"] == "results/history.sqlite"  # where a session keeps it by default


def test_each_schedule_has_its_job() -> None:
    """Every cron line of the nightly starts exactly one of its jobs."""
    nightly = WORKFLOWS["nightly"]
    crons = {entry["cron"] for entry in nightly[True]["schedule"]}  # YAML reads "on" as true
    for cron in crons:
        started = [job for job, body in nightly["jobs"].items() if f"!= '{cron}'" not in body["if"]]
        assert len(started) == 1, cron
