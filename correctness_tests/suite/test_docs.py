"""The pages in docs/ stay true: every command is run by a test or an environment, every link leads somewhere."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from correctness_tests.suite.nights import night
from fixtures.history import append_night
from fixtures.workload_checks import check_workload
from fixtures.workloads import resolve_workload

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}

EXPORTS = "correctness_tests/suite/test_history_exports.py"
SIMULATED = "perf_tests/test_simulated_steps.py"
SIMULATED_FILES = f'{SIMULATED}: simulate.main(["--write", "--timelines"'
STORED = "correctness_tests/suite/test_stored_results_are_judged.py: "
UPGRADE = "tox.ini: [testenv:upgrade]"
OWN_BUDGETS = "tox.ini: {[testenv:readme]budgets}"
OWN_MODEL = "correctness_tests/suite/test_docs.py: check_workload("
MUTATION = "tox.ini: commands = python -m correctness_tests.suite.mutation {posargs}"
SOLO = "tox.ini: commands = pytest perf_tests --report -m gpu --platform solo"
RUN_BY = {
    "sbatch --nodes=2 examples/slurm/nightly.sbatch": (
        'correctness_tests/suite/test_several_nodes.py: subprocess.run(["bash", str(JOB_SCRIPT)]'
    ),
    "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=HEAD:29500 "
    "perf_tests/bench_fsdp.py --mode fsdp2 --out results/night": (
        "tox.ini: commands = python -m correctness_tests.suite.two_nodes"
    ),
    "pytest perf_tests -m gpu --from-results results/night": (
        "tox.ini: commands = python -m correctness_tests.suite.two_nodes"
    ),
    "python -m perf_tests.phase_table --workload gpt2-large --world-size 8": (
        'perf_tests/test_phase_table.py: phase_table.main(["--workload", "gpt2-large", "--world-size", "8"])'
    ),
    "pytest perf_tests --report -m gpu --rehearse": "tox.ini: commands = pytest perf_tests --report -m gpu --rehearse",
    "pytest perf_tests -m gpu --rehearse --report night.html": (
        'correctness_tests/suite/test_report_option.py: judge.run(NIGHT, "--report", "night/page.html")'
    ),
    "python -m fixtures.report results/nightly --report night.html --out results/pictures": (
        'correctness_tests/suite/test_report_option.py: main([*stored, "--report"'
    ),
    "python -m perf_tests.four_accounts": "perf_tests/test_gpt2_large.py: accounts_report(knob, ddp)",
    "tox -e upgrade": UPGRADE,
    "UPGRADE_ARGS= tox -e upgrade": UPGRADE,
    "tox -e upgrade -- --budgets-only": UPGRADE,
    'pytest perf_tests -m gpu --update-baselines --reason "torch 2.14.1"': (
        f"{STORED}test_update_writes_the_selected_cases"
    ),
    "pytest perf_tests -m gpu --from-results results/2026-11-12 results/2026-11-13 results/2026-11-14 "
    '--update-baselines --reason "torch 2.14.1, 3 nights"': (
        "correctness_tests/suite/test_baselines_refresh.py: test_nights_are_pooled"
    ),
    "pytest perf_tests -m gpu --from-results results/nightly": f"{STORED}test_same_code_passes",
    "python -m fixtures.report.summary results/nightly --limit 65536 --out comment.md": (
        'correctness_tests/suite/test_report_markdown.py: main([str(tmp_path), "--limit", "65536", "--out"'
    ),
    "pytest perf_tests -m gpu --rehearse --workload my_models:net --baselines my_baselines "
    '--update-baselines --reason "first figures"': "tox.ini: {[testenv:readme]own} --baselines",
    "pytest perf_tests -m gpu --rehearse --workload my_models:net --baselines my_baselines": OWN_MODEL,
    "pytest perf_tests -m cpu -k accepted --workload my_models:net --baselines my_baselines "
    '--update-baselines --reason "first figures"': OWN_BUDGETS,
    "pytest perf_tests -m cpu -k accepted --workload my_models:net --baselines my_baselines": OWN_BUDGETS,
    "python -m perf_tests.estimate": "correctness_tests/suite/test_estimate.py: main([])",
    "python -m perf_tests.bench_session": "correctness_tests/suite/test_spent.py: bench_session.main(",
    "python -m perf_tests.simulate": f"{SIMULATED}: simulate.main([])",
    "python -m perf_tests.simulate --write": SIMULATED_FILES,
    "python -m perf_tests.simulate --timelines results/simulated.json": SIMULATED_FILES,
    "python -m fixtures.history changes": f'{EXPORTS}: main(["changes", str(history)])',
    "python -m fixtures.history otava --out results/otava": f'{EXPORTS}: main(["otava", str(history), "--out"',
    "python -m fixtures.history benchmark --out results/nights": f'{EXPORTS}: main(["benchmark", str(history)',
    "python -m fixtures.history bencher --out results/night.json": f'{EXPORTS}: main(["bencher", str(history), "--out"',
    "DS_BUILD_OPS=0 pip install -e '.[zero3]'": "tox.ini: extras = test, zero3",
    "RUNS=20 MINUTES=30 tox -e attack": "tox.ini: python -m correctness_tests.suite.rank_faults --runs {env:RUNS:3}",
    "tox -e soak": "tox.ini: python -m correctness_tests.suite.soak --rounds {env:ROUNDS:30}",
    "python -m correctness_tests.suite.fuzz launch --minutes 30 --corpus corpus": (
        "tox.ini: python -m correctness_tests.suite.fuzz launch {[testenv:attack]fuzzed}"
    ),
    "tox -e solo": SOLO,
    "tox -e solo -- --rehearse": SOLO,
    "tox -e rehearse -- --profile on": "correctness_tests/suite/test_evidence.py: evidence.profile(plan(",
    "tox -e mutation": MUTATION,
    "tox -e mutation -- --part 1/4": '.github/workflows/nightly.yml: tox -e mutation -- --part "$PART"',
    "tox -e mutation -- fixtures.gate.verdicts": MUTATION,
    "tox -e mutation -- --fresh fixtures.gate.noise": MUTATION,
    "tox -e zero3": "tox.ini: [testenv:zero3]",
    "pytest -m zero3": "tox.ini: pytest -m zero3",
    "python perf_tests/account_zero3.py": "tox.ini: python perf_tests/account_zero3.py",
    "python -m perf_tests.four_accounts --zero3": "tox.ini: python -m perf_tests.four_accounts --zero3",
    "python -m perf_tests.scale": "tox.ini: python -m perf_tests.scale --out {env_tmp_dir}/docs",
    "python -m perf_tests.scale --out docs": "tox.ini: python -m perf_tests.scale --out {env_tmp_dir}/docs",
}
"""Where each command of the pages is run: a file, and what must stand in it."""


def commands() -> list[tuple[str, str]]:
    """Every command of the pages' ``sh`` blocks, with its page, continued lines joined, without its comment."""
    found = []
    for page, text in PAGES.items():
        for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
            lines = re.sub(r"\s*\\\n\s*", " ", block).splitlines()
            found += [(page, re.sub(r"\s+#.*", "", line)) for line in lines if line and not line.startswith("#")]
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_every_command_is_run_somewhere(page: str, command: str) -> None:
    """The command is known, and the place that runs it (an environment, a test) still does."""
    assert command in RUN_BY, f"docs/{page}: no test or environment is named for {command!r}: name it in RUN_BY here"
    path, _, text = RUN_BY[command].partition(": ")
    assert text in (ROOT / path).read_text(encoding="utf-8"), f"{path} no longer has {text!r}, which runs {command!r}"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    """Links to files, pictures and headings of the project exist."""
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        path, _, heading = target.partition("#")
        if "://" in target:
            continue
        file = (ROOT / "docs" / path).resolve() if path else ROOT / "docs" / page
        if not file.exists() or (heading and heading not in anchors(file.read_text(encoding="utf-8"))):
            missing.append(target)
    assert not missing, f"docs/{page} links to what does not exist: {missing}"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_named_exists(page: str) -> None:
    """Paths in code quotes are files of the project, or folders."""
    named = re.findall(r"`((?:fixtures|perf_tests|correctness_tests|baselines|examples|docs)/[\w./-]*)`", PAGES[page])
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing, f"docs/{page} names files that do not exist: {missing}"


def anchors(text: str) -> set[str]:
    """How GitHub calls the headings of a page in links."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


NAMED = re.compile(r"((?:`\w+`(?:, | and )?)+)\s+(?:of|in)\s+`([\w./-]+\.py)`")


@pytest.mark.parametrize("page", PAGES)
def test_every_name_is_where_it_is_said_to_be(page: str) -> None:
    """Where a page says that a name is in a file, that file has it."""
    missing = [
        f"{name} in {path}"
        for names, path in NAMED.findall(PAGES[page])
        for name in re.findall(r"`(\w+)`", names)
        if not re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not missing, f"docs/{page} names what is not there: {missing}"


def test_the_model_of_ones_own_can_be_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example module, as it stands on its page, gives a workload that passes every check before a launch."""
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGES["your-own-model.md"], flags=re.DOTALL)
    (tmp_path / "my_models.py").write_text(snippet)
    monkeypatch.syspath_prepend(str(tmp_path))
    check_workload(resolve_workload("my_models:net"))


def test_the_index_names_every_page() -> None:
    """docs/README.md leads to each of the others."""
    assert [page for page in PAGES if page != "README.md" and f"]({page}" not in PAGES["README.md"]] == []


def test_the_query_of_the_history_page_finds_nights(tmp_path: Path) -> None:
    """The example query runs on a history as it is, and gives the columns that it names."""
    (query,) = re.findall(r"```sql\n(.*?)```", PAGES["history.md"], flags=re.DOTALL)
    for number in range(40):
        append_night(tmp_path / "history.sqlite", night(number))
    with sqlite3.connect(tmp_path / "history.sqlite") as db:
        db.row_factory = sqlite3.Row
        rows = db.execute(query).fetchall()
    assert len(rows) == 10
    assert min(row["night"] for row in rows) >= "2026-01-09"
    assert rows[0]["verdict"] == "PASS"


def test_the_history_page_names_every_column(tmp_path: Path) -> None:
    """Each column of both tables is described."""
    append_night(tmp_path / "history.sqlite", night(0))
    with sqlite3.connect(tmp_path / "history.sqlite") as db:
        columns = {row[1] for table in ("nights", "comparisons") for row in db.execute(f"PRAGMA table_info({table})")}
    told = {column for column in columns if f"`{column}`" in PAGES["history.md"]}
    assert columns - told == {"denominator_median", "denominator_lowest", "denominator_highest"}  # "the same of"
