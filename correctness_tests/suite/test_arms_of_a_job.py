"""Which arms a job launches: those that its checks are about, where they are installed and there is a use for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from correctness_tests.suite.judging import CHECKS
from correctness_tests.suite.synthetic import ARMS, Job
from correctness_tests.suite.test_commands import options_of
from fixtures import plugin
from fixtures.errors import UsageError
from fixtures.extras import FSDP1, ZERO3, Extra, Part
from fixtures.platforms import playing_rank
from fixtures.session import job, selection
from fixtures.strategies import build_model, get_strategy
from fixtures.workloads import resolve_workload

pytestmark = pytest.mark.cpu

QUIET = "--benchmark-disable"
"""In a worker of xdist's, the plugin's warning that it measures nothing would become one of the tier's own."""
MARKS = "[pytest]\nmarkers =\n  cpu: -\n  gpu: -\n  fsdp1: -\n  zero3: -\n"


@pytest.fixture
def arms(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The nightly's checks in a session that prints its arms and launches nothing."""
    monkeypatch.setattr(Extra, "installed", False)
    monkeypatch.setattr(Part, "installed", True)
    monkeypatch.setattr(job.Job, "prepare", lambda self: pytest.exit(f"arms: {' '.join(self.arms)}", 0))
    pytester.makeini(MARKS)
    pytester.makepyfile(test_night=CHECKS)
    return pytester


def arms_of(arms: pytest.Pytester, *arguments: str) -> str:
    """What a session of these options launches, in the order of a round."""
    result = arms.runpytest_inprocess("-p", "fixtures.plugin", QUIET, "-m", "gpu", "--rehearse", *arguments)
    (line,) = [line for line in result.outlines + result.errlines if "arms: " in line]
    return line.partition("arms: ")[2].strip("! ")


@pytest.mark.parametrize(
    ("arguments", "launched"),
    [
        ((), "single ddp fsdp2 fsdp2-noreshard fsdp1"),
        (("-k", "fsdp1"), "fsdp2 fsdp1"),
        (("-k", "not fsdp1"), "single ddp fsdp2 fsdp2-noreshard"),
        (("-k", "fsdp2:ddp"), "ddp fsdp2"),
        (("-k", "single"), "single ddp"),
        (("-m", "gpu and not fsdp1", "-k", "not single"), "ddp fsdp2 fsdp2-noreshard"),
        (("--platform", "solo"), "ddp fsdp2 fsdp2-noreshard fsdp1"),
        (("--no-bandwidth",), "ddp fsdp2 fsdp2-noreshard fsdp1"),
        (("--workload", "examples.huggingface_gpt2:tiny"), "ddp fsdp2 fsdp2-noreshard fsdp1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_arms(arms: pytest.Pytester, arguments: tuple[str, ...], launched: str) -> None:
    """A selection launches its own arms; the arm alone is left out where no account would use it."""
    assert arms_of(arms, *arguments) == launched


def test_an_extra_that_is_installed_is_launched(arms: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSpeed's arm comes last, where it is installed."""
    monkeypatch.setattr(Extra, "installed", True)
    assert arms_of(arms).endswith(" fsdp1 zero3")


def test_a_torch_without_fsdp1_is_one_line(arms: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checks are skipped with one line that names it; the others' arms are launched."""
    monkeypatch.setattr(Part, "installed", False)
    monkeypatch.setattr(job.Job, "prepare", lambda self: None)
    monkeypatch.setattr(plugin, "job_header", lambda job, now: [f"arms: {' '.join(job.arms)}"])
    result = arms.runpytest_inprocess(
        "-p", "fixtures.plugin", QUIET, "-m", "gpu", "--rehearse", "--setup-only", "-rs", "-k", "fsdp1 or ddp:single"
    )
    skips = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert "arms: single ddp" in result.outlines
    assert len([line for line in skips if line.endswith(FSDP1.missing)]) == 1, skips


def test_whether_torch_has_fsdp1_is_read_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name in the text of the public module decides; no torch at all is none either."""
    assert FSDP1.installed
    package = tmp_path / "torch_of_tomorrow" / "distributed" / "fsdp"
    package.mkdir(parents=True)
    (tmp_path / "torch_of_tomorrow" / "__init__.py").write_text("raise ImportError")
    (package / "__init__.py").write_text("from ._fully_shard import fully_shard\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    later = Part(FSDP1.name, "torch_of_tomorrow", FSDP1.product, "", module=FSDP1.module, name_in=FSDP1.name_in)
    assert not later.installed
    assert not Part(FSDP1.name, "no_such_torch", "", "", module=FSDP1.module, name_in=FSDP1.name_in).installed


def test_fsdp1_on_a_torch_without_it_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever applies it is told; the other strategies are imported and work without it."""
    monkeypatch.setattr(Part, "installed", False)
    workload = resolve_workload("mlp")
    with (
        playing_rank(0, 2) as platform,
        pytest.raises(UsageError, match="FullyShardedDataParallel, which the installed"),
    ):
        get_strategy("fsdp1").apply(build_model(workload, 0), workload, platform.mesh(), platform.device(0), "mixed")


def test_extras_differ() -> None:
    """What is said of a part of torch is not what is said of a package."""
    assert "optional extra" in ZERO3.missing
    assert (
        FSDP1.missing == "fsdp1 needs FullyShardedDataParallel, which the installed torch is without: torch 2.14 has it"
    )
    assert selection.each_pair("step")[0].id == "step-fsdp2:ddp"


@pytest.mark.parametrize(("arm", "spared"), [("fsdp1", True), ("single", True), ("fsdp2", False)])
def test_an_arm_that_failed_can_be_left_out(arm: str, spared: bool, tmp_path: Path) -> None:
    """A model that FSDP1 refuses does not stop its owner: the message says how to do without that arm."""
    options = options_of(["--rehearse", "--history", "off", "--baselines", str(tmp_path)])
    measured = job.Job(
        options, tuple(ARMS), frozenset(), say=lambda line: None, failures={arm: "rank 0 raised ValueError"}
    )
    measured.measurements = Job(launches=3).measurements()
    with pytest.raises(job.JobFailedError, match="rank 0 raised ValueError") as caught:
        measured.launches(arm)
    assert str(caught.value).endswith(f"\n-k 'not {arm}' leaves this arm out.") is spared
