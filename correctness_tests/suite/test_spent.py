"""Where a session's time went: one line says it all, the benchmark reads it, and what is not imported costs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.report.text import noted
from fixtures.session.selection import will_rehearse
from fixtures.session.spent import LAUNCHES, Spent, session_s, spent_line
from fixtures.tiers import is_of_another_tier
from perf_tests import bench_session
from perf_tests.bench_session import spent_by, table

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).resolve().parents[2]
SPENT = {"the workload's trial": 3.94, "waiting": 0.001, LAUNCHES: 38.4, "timelines": 1.8, "page": 2.26}


def test_the_line_adds_up() -> None:
    """Every term, what none of them is, and the launches' share; what took no time is left out."""
    assert spent_line(SPENT, 48.0) == (
        "session: 48 s, launches 38 s (80%); the workload's trial 3.9 s, timelines 1.8 s, page 2.3 s, the rest 1.6 s"
    )


def test_the_benchmark_reads_the_line() -> None:
    """However the terminal breaks it; its terms and the interpreter's end make the whole."""
    spent = spent_by("\n".join(["report: x", *noted(spent_line(SPENT, 48.0)), "=== 30 passed in 48.00s"]))
    assert spent == {LAUNCHES: 38.0, "the workload's trial": 3.9, "timelines": 1.8, "page": 2.3, "the rest": 1.6}
    text, share = table(spent, 50.0)
    assert share == pytest.approx(12 / 50)
    assert "overhead" in text
    with pytest.raises(ValueError, match="left no line"):
        spent_by("=== 3 failed in 2.00s")


@pytest.mark.parametrize(("arguments", "status"), [([], 0), (["--bound", "0.2"], 1), (["--launches", "5"], 0)])
def test_the_benchmark_of_a_session(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int
) -> None:
    """It rehearses with the options that are given on, prints the terms, and fails beyond its bound alone."""
    commands = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(stdout=spent_line(SPENT, 48.0), returncode=0)

    clock = iter([100.0, 150.0])
    monkeypatch.setattr(bench_session, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(bench_session, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert bench_session.main(arguments) == status
    assert ("--launches" in commands[0]) == ("--launches" in arguments)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["overhead", "12.0", "s", "24.0%"]


def test_a_session_without_the_line_is_no_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session that failed before it launched anything: status 2, and its last words."""
    ended = SimpleNamespace(stdout="ERROR: unknown workload", returncode=4)
    monkeypatch.setattr(bench_session, "subprocess", SimpleNamespace(run=lambda *_, **__: ended))
    assert bench_session.main([]) == 2
    assert "ended with status 4" in capsys.readouterr().err


def test_time_is_moved_and_not_made() -> None:
    """What a job waited for the machine is what its launches did not take."""
    spent = Spent()
    with spent.on("waiting"):
        pass
    spent.add("waiting", 10.0)
    spent.move("waiting", LAUNCHES, 8.0)
    assert spent.seconds["waiting"] == pytest.approx(2.0, abs=0.5)
    assert spent.seconds[LAUNCHES] == 8.0
    assert session_s() > 0


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("pytestmark = pytest.mark.cpu\n", True),
        ("pytestmark = [pytest.mark.cpu, pytest.mark.timeout(20)]\n", True),
        ("pytestmark = pytest.mark.gpu\n", False),
        ("def test_without_a_tier(): pass\n", False),
        ("pytestmark = pytest.mark.cpu\n@pytest.mark.gpu\ndef test_in_both(): pass\n", False),
        ("if x:\n    pytestmark = pytest.mark.cpu\n", False),
    ],
)
def test_a_file_of_another_tier_is_not_imported(tmp_path: Path, text: str, left_out: bool) -> None:
    """Its text says so, and nothing in it names the tier that was asked for: else it is collected, and judged there."""
    path = tmp_path / "test_it.py"
    path.write_text(text)
    assert is_of_another_tier(path, "gpu") is left_out


def test_a_session_of_the_gpu_tier_imports_neither_torch_nor_hypothesis() -> None:
    """Collecting its checks loads what they use, and they use nothing of the cpu tier's."""
    listed = "import sys, pytest; pytest.main(['perf_tests', '-m', 'gpu', '--rehearse', '--collect-only', '-qq']); "
    heavy = "('torch', 'hypothesis', 'matplotlib', 'jinja2', 'sympy', 'scipy.stats')"
    code = listed + f"print('loaded:', [name for name in {heavy} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "loaded: []", ended.stdout[-2000:]


@pytest.mark.parametrize(
    ("arguments", "early"),
    [
        (["perf_tests", "-m", "gpu", "--rehearse"], True),
        (["perf_tests/test_no_growth.py", "-m", "gpu", "--rehearse"], True),
        (["perf_tests", "-m", "gpu", "--rehearse", "--collect-only"], False),
        (["perf_tests", "-m", "gpu"], False),
        (["perf_tests", "--rehearse"], False),
        (["/tmp", "-m", "gpu", "--rehearse"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_only_a_rehearsal_of_the_suite_starts_its_ranks_server_early(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, arguments: list[str], early: bool
) -> None:
    """A session that may launch nothing, or whose checks are someone else's, starts none."""
    from correctness_tests.suite.test_commands import options_of  # it parses options as pytest does

    monkeypatch.chdir(ROOT)
    options = options_of([word for word in arguments if word in ("--rehearse",)])
    given = pytestconfig.option.__class__(
        markexpr="gpu" if "-m" in arguments else "", collectonly="--collect-only" in arguments, numprocesses=None
    )
    config = type(
        "Config", (), {"option": given, "args": arguments[:1], "invocation_params": pytestconfig.invocation_params}
    )
    monkeypatch.setattr(config, "invocation_params", type("Params", (), {"dir": ROOT}))
    assert will_rehearse(config, options) is early  # type: ignore[arg-type]
