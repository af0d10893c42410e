"""No silent green: every test is in one tier, and a tier that was asked for by name fails when it ran no check."""

from __future__ import annotations

import pytest

import fixtures.platforms  # noqa: F401  torch can't be imported twice, and pytester forgets what a test imports

pytestmark = pytest.mark.cpu

CPU_TEST = "import pytest\n@pytest.mark.cpu\ndef test_cpu(): pass\n"
JOB_TEST = """
import pytest
pytestmark = pytest.mark.gpu
@pytest.mark.parametrize("metric", ["resident", "peak", "step"])
@pytest.mark.parametrize("pair", [("fsdp2", "ddp")])
def test_ratio(job, pair, metric):
    job.check(pair, metric)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A small project that loads the suite's plugin, on a machine without accelerators."""
    monkeypatch.setattr("fixtures.platforms.accelerator_count", lambda: 0)
    monkeypatch.setattr("fixtures.platforms.accelerator_name", lambda: "CUDA")
    pytester.makeini("[pytest]\nmarkers =\n  cpu: one tier\n  gpu: the other\n")
    pytester.makepyfile(test_cpu=CPU_TEST, test_job=JOB_TEST)
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest on the small project, in this process."""
    return suite.runpytest_inprocess("-p", "fixtures.plugin", "-p", "no:randomly", "-rs", *arguments)


@pytest.mark.parametrize("marks", ["", "@pytest.mark.cpu\n@pytest.mark.gpu\n"], ids=["no tier", "both tiers"])
def test_a_test_outside_of_one_tier_stops_collection(suite: pytest.Pytester, marks: str) -> None:
    """A test with no tier's mark, or with both, is named in a usage error."""
    suite.makepyfile(test_astray=f"import pytest\n{marks}def test_lost(): pass\n")
    result = run(suite)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: 1 tests are not in exactly one tier*", "*test_astray.py::test_lost"])


def test_gpu_asked_for_on_a_machine_without_gpus_fails(suite: pytest.Pytester) -> None:
    """``-m gpu`` without devices exits non-zero and counts what did not run."""
    result = run(suite, "-m", "gpu")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: 0 of 3 gpu checks ran: needs 8 CUDA devices, found 0*"])


def test_gpu_asked_for_at_another_world_size_counts_its_devices(suite: pytest.Pytester) -> None:
    """The line names the number of devices that the asked world size needs."""
    result = run(suite, "-m", "gpu", "--world-size", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: 0 of 3 gpu checks ran: needs 2 CUDA devices, found 0*"])


@pytest.mark.parametrize("arguments", [(), ("-m", "cpu or not gpu"), ("-m", "not cpu")], ids=" ".join)
def test_gpu_checks_not_asked_for_are_skipped(suite: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """Without ``gpu`` by name, a machine without devices is no failure."""
    assert run(suite, *arguments).ret == pytest.ExitCode.OK


def test_skipped_gpu_checks_give_one_line(suite: pytest.Pytester) -> None:
    """Plain pytest on a laptop folds all gpu checks into one line with the reason."""
    result = run(suite)
    skips = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert len(skips) == 1, result.outlines
    assert "SKIPPED [3]" in skips[0]
    assert "needs 8 CUDA devices, found 0" in skips[0]


def test_cpu_tier_that_only_skips_fails(suite: pytest.Pytester) -> None:
    """A tier whose every check skipped did not run: asked for by name, it fails and repeats the reason."""
    suite.makepyfile(test_cpu="import pytest\n@pytest.mark.cpu\ndef test_cpu(): pytest.skip('on a whim')\n")
    result = run(suite, "-m", "cpu")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: 0 of 1 cpu checks ran: on a whim"])


def test_session_that_ends_early_says_so(suite: pytest.Pytester) -> None:
    """Where the session was ended before a check ran, that is the reason, and no count of checks is made up."""
    suite.makepyfile(test_cpu="import pytest\n@pytest.mark.cpu\ndef test_cpu(): pytest.exit('enough')\n")
    result = run(suite, "-m", "cpu")
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["ERROR: no cpu check ran: the session ended before one did"])


def test_cpu_tier_that_ran_passes(suite: pytest.Pytester) -> None:
    """The control: with one check that ran there is no complaint."""
    result = run(suite, "-m", "cpu")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("ERROR:*")
