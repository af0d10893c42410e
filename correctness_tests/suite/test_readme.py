"""README stays true: every command in it is run by CI or by a named test."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import fixtures.platforms  # noqa: F401  torch can't be imported twice, and pytester forgets what a test imports

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

OWN_MODEL = "tox.ini: {[testenv:readme]own}"
BENCH = "tox.ini: {[testenv:readme]bench}"
RUN_BY = {
    "pip install tox": ".ci/run: install --quiet --disable-pip-version-check tox",
    "tox -e rehearse": "tox.ini: {[testenv:rehearse]commands}",
    "tox -e cpu": ".ci/run: --parallel-live -e lint,cpu",
    "pip install torch==2.13.0": "tox.ini: deps = torch=={env:TORCH_VERSION:2.13.0}",
    "pip install -e .[test]": "tox.ini: extras = test",
    "pytest -m cpu": "tox.ini: commands = pytest -m cpu",
    "pytest perf_tests -m gpu --rehearse": "tox.ini: commands = pytest perf_tests --report -m gpu --rehearse",
    "pytest perf_tests -m cpu": "tox.ini: commands = pytest -m cpu",
    "pytest perf_tests -m cpu --update-baselines --reason \"torch 2.14.1\" --accept '*/host'": (
        "correctness_tests/suite/test_budgets_life.py: test_an_upgrade_fails_prints_the_move_and_can_be_accepted"
    ),
    "python -m perf_tests.four_accounts": "perf_tests/test_gpt2_large.py: accounts_report(knob, ddp)",
    "python -m perf_tests.simulate": "perf_tests/test_simulated_steps.py: simulate.main([])",
    "tox -e upgrade -- --budgets-only": "tox.ini: [testenv:upgrade]",
    "pytest": "correctness_tests/suite/test_tiers.py: test_skipped_gpu_checks_give_one_line",
    'pytest perf_tests -m gpu --update-baselines --reason "torch 2.14.1"': (
        "correctness_tests/suite/test_stored_results_are_judged.py: test_update_writes_the_selected_cases"
    ),
    "pip install -e .[hf]": "tox.ini: extras = test, hf",
    "pytest perf_tests -m gpu --rehearse --workload examples.huggingface_gpt2:tiny "
    '--update-baselines --reason "first figures"': OWN_MODEL,
    "pytest perf_tests -m gpu --rehearse --workload examples.huggingface_gpt2:tiny": OWN_MODEL,
    "torchrun --standalone --nproc-per-node 2 perf_tests/bench_fsdp.py --mode ddp --device cpu "
    "--workload gpt2-rehearsal --out results/bench/night.csv": BENCH,
    "torchrun --standalone --nproc-per-node 2 perf_tests/bench_fsdp.py --mode fsdp2 --device cpu "
    "--workload gpt2-rehearsal --out results/bench/night.csv": BENCH,
}


def commands() -> list[str]:
    """Every command of README's ``sh`` blocks, without its comment."""
    blocks = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("command", commands())
def test_every_command_is_run_somewhere(command: str) -> None:
    """The command is known, and the place that runs it (CI, a tox environment, a test) still does."""
    assert command in RUN_BY, f"no test or CI run is named for {command!r}: name it in {__name__}.RUN_BY"
    path, _, text = RUN_BY[command].partition(": ")
    assert text in (ROOT / path).read_text(encoding="utf-8"), f"{path} no longer has {text!r}, which runs {command!r}"


def test_every_file_named_exists() -> None:
    """Links and paths in README lead to files of the project."""
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.\w+)`", README)
    ours = {path for path in (*linked, *named) if not path.startswith("results/")}  # a run makes those
    missing = [path for path in ours if not (ROOT / path).exists()]
    assert not missing, f"README names files that do not exist: {missing}"


def test_every_option_named_exists(pytester: pytest.Pytester) -> None:
    """The suite's options that README's pytest commands use are in ``--help``."""
    help_text = pytester.runpytest_inprocess("-p", "fixtures.plugin", "--help").stdout.str()
    used = {word for command in commands() if command.startswith("pytest") for word in shlex.split(command)}
    assert all(option in help_text for option in used if option.startswith("--"))


def test_the_test_it_shows_passes(pytester: pytest.Pytester) -> None:
    """README's example of a test on ranks runs as it stands there."""
    (snippet,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    pytester.makeini("[pytest]\nmarkers = cpu: the only tier here\n")
    pytester.makepyfile(test_sums=snippet)
    result = pytester.runpytest_inprocess("-p", "fixtures.plugin", "-m", "cpu")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
