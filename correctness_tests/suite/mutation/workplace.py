"""A folder a module, in which mutmut makes the module's mutants and runs the tests that must kill them."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COPIED = ("fixtures", "correctness_tests", "baselines")
TIMEOUT = "timeout"
KILLED = {"killed", TIMEOUT, "segfault"}
SPINNER = re.compile("[\u2800-\u28ff]")
KNOWN_TO_MUTMUT = {"staticmethod", "classmethod"}
PLUGINS = ("_hypothesis_pytestplugin", "correctness_tests.suite.mutation.plugin")
WITHOUT = ("cacheprovider", "unraisableexception", "threadexception", "faulthandler")

PYTEST = """\
[pytest]
pythonpath = .
markers =
    cpu: as in tox.ini
    gpu: as in tox.ini
    faults: as in tox.ini
"""


@dataclass(frozen=True)
class Mutant:
    """One mutant: what became of it, and what it changes (empty where it was killed)."""

    name: str
    status: str
    was: str = ""
    becomes: str = ""

    @property
    def killed(self) -> bool:
        """A test failed, or it never came back."""
        return self.status in KILLED


class WorkplaceError(Exception):
    """mutmut could not run: the tests fail without a mutant, or it found none."""


def mutants_of(module: str, tests: tuple[str, ...], folder: Path) -> list[Mutant]:
    """Every mutant of a module and its fate; of those that ``folder`` knows, only the living are tried again.

    Raises ``WorkplaceError`` with mutmut's own output.
    """
    place = folder / module
    _furnish(place, module, tests)
    return _run(place)


def _furnish(place: Path, module: str, tests: tuple[str, ...]) -> None:
    """The sources and the settings; a file that has not changed keeps its date, by which mutmut knows it."""
    place.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                _write(place / path.relative_to(ROOT), path.read_bytes())
    source = f"{module.replace('.', '/')}.py"
    _write(place / source, undecorated((ROOT / source).read_text(encoding="utf-8")).encode())
    _write(place / "pytest.ini", PYTEST.encode())
    _write(place / "pyproject.toml", _settings(source, tests).encode())


def _write(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _settings(source: str, tests: tuple[str, ...]) -> str:
    """mutmut's; a list of JSON is one of TOML."""
    arguments = [word for plugin in PLUGINS for word in ("-p", plugin)]
    arguments += [word for plugin in WITHOUT for word in ("-p", f"no:{plugin}")]
    values: dict[str, object] = {
        "source_paths": ["fixtures"],
        "only_mutate": [source],
        "also_copy": ["correctness_tests", "baselines", "pytest.ini"],
        "pytest_add_cli_args": arguments,
        "pytest_add_cli_args_test_selection": [f"correctness_tests/suite/{test}" for test in tests],
        "process_isolation": "forkserver",  # a test's cached readings must not outlive its mutant
        "track_dependencies": False,
        "use_git_change_detection": False,
        "timeout_constant": 30.0,  # seconds of the clock, on machines that may be busy
        "timeout_multiplier": 3.0,
    }
    return "[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def _run(place: Path) -> list[Mutant]:
    driver = Path(__file__).with_name("driver.py")
    command = [sys.executable, "-P", str(driver), "fates.json"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise WorkplaceError("\n".join(line for line in done.stdout.splitlines() if not SPINNER.match(line)))
    return [_mutant(**fate) for fate in json.loads((place / "fates.json").read_text(encoding="utf-8"))]


def _mutant(name: str, status: str, diff: str) -> Mutant:
    """The lines that a diff takes away and puts in, without their indentation."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    was, becomes = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return Mutant(name, status, was, becomes)


def undecorated(source: str) -> str:
    """The module with ``f = d(f)`` below ``def f`` for each ``@d`` above it: mutmut leaves decorated functions out."""
    lines = source.splitlines(keepends=True)
    body = ast.parse(source).body
    inside = [node for outer in body if isinstance(outer, ast.ClassDef) for node in outer.body]
    functions = [node for node in (*body, *inside) if isinstance(node, ast.FunctionDef) and node.decorator_list]
    for node in sorted(functions, key=lambda node: node.lineno, reverse=True):
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if len(decorators) == 1 and decorators[0] in KNOWN_TO_MUTMUT:
            continue
        value = node.name
        for decorator in reversed(decorators):
            value = f"{decorator}({value})"
        assert node.end_lineno is not None
        lines.insert(node.end_lineno, f"{' ' * node.col_offset}{node.name} = {value}\n")
        del lines[node.decorator_list[0].lineno - 1 : node.lineno - 1]
    return "".join(lines)


def forget(module: str, folder: Path) -> None:
    """Remove what earlier runs left of a module."""
    shutil.rmtree(folder / module, ignore_errors=True)
