"""The simulated nights are the gate's: same verdicts, the published table, and error rates that hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from correctness_tests.suite.synthetic import Job, accepted
from fixtures.errors import UsageError
from fixtures.gate import power
from fixtures.gate.baselines import render
from fixtures.gate.noise import Noise, noise_of
from fixtures.gate.power import NOISY, QUIET, Design, Power, Stopping, simulate, simulate_stopping
from fixtures.gate.sequential import confidence_of, may_stop, planned_looks
from fixtures.gate.statistics import RatioEstimate, paired_ratio
from fixtures.gate.verdicts import TIME, Verdict, judge

pytestmark = pytest.mark.cpu

NIGHTS = 40_000


def test_quiet_and_noisy_figures_hold() -> None:
    """6 launches, a baseline of 5 nights, 20 metrics: at most 1 and 5 false alarms a year; slips of 12.5% and 15.5%."""
    quiet, noisy = simulate(QUIET, Design(), NIGHTS), simulate(NOISY, Design(), NIGHTS)
    assert quiet.a_year(quiet.false_alarms) <= 1
    assert noisy.a_year(noisy.false_alarms) <= 5
    assert (quiet.slip <= 0.125, noisy.slip <= 0.155) == (True, True), (quiet.slip, noisy.slip)


def test_published_table_is_reproduced() -> None:
    """About none a year and 12.3% with 6 launches and 5 nights; 13 a year and 16% with one of each and no interval."""
    six, one = simulate(QUIET, Design(plain=True), NIGHTS), simulate(QUIET, Design(1, 1, plain=True), NIGHTS)
    assert six.a_year(six.false_alarms) < 1
    assert six.slip == pytest.approx(0.123, abs=0.001)
    assert one.a_year(one.false_alarms) == pytest.approx(13, abs=4 * one.a_year(one.alarms_error))
    assert one.slip == pytest.approx(0.16, abs=0.003)


def test_simulated_verdicts_are_the_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nights drawn once and judged by both: alarms, undecided nights and every smallest slip agree with ``judge``."""
    noise, design = Noise(0.08, 0.03), Design(launches=4, baseline_nights=2)
    drawn = np.random.default_rng(5)
    nights = [
        noise.launch_sd * drawn.standard_normal((300, n)) + 0.03 * drawn.standard_normal((300, 1)) for n in (4, 8)
    ]
    supply = iter(nights)
    monkeypatch.setattr(power, "_pairs", lambda *_: next(supply))
    found = simulate(noise, design, 300)
    judged = [
        judge(paired_ratio(np.exp(a).tolist(), [1.0] * 4), paired_ratio(np.exp(b).tolist(), [1.0] * 8), TIME).verdict
        for a, b in zip(*nights, strict=True)
    ]
    alarms = sum(verdict in (Verdict.REGRESSED, Verdict.IMPROVED) for verdict in judged)
    assert 0 < alarms < 300
    assert found.false_alarms * 300 == pytest.approx(alarms)
    assert found.undecided * 300 == pytest.approx(judged.count(Verdict.INCONCLUSIVE))
    caught = 0
    for a, b in zip(*nights, strict=True):
        night = paired_ratio((np.exp(a) * (1 + found.slip)).tolist(), [1.0] * 4)
        caught += judge(night, paired_ratio(np.exp(b).tolist(), [1.0] * 8), TIME).verdict is Verdict.REGRESSED
    assert caught / 300 == pytest.approx(0.95, abs=0.005)


def test_stopping_early_keeps_the_error_rate() -> None:
    """Through noise that makes jobs go on, the interval at the stop misses at most 5%; uncorrected looks miss more."""
    noise = Noise(0.12, 0.0)
    honest, naive = (simulate_stopping(noise, 4, 16, looks=looks) for looks in (None, 1))
    assert honest.missed <= 0.05
    assert naive.missed > 0.06


@pytest.mark.parametrize("looks", [None, 1])
def test_simulated_jobs_stop_as_jobs_do(looks: int | None) -> None:
    """The same draws, job by job: launches until ``may_stop``, and whether the interval then holds the truth, 1."""
    noise, minimum, cap, jobs = Noise(0.1, 0.0), 3, 8, 100
    confidence = confidence_of(looks or planned_looks(minimum, cap))
    drawn = np.random.Generator(np.random.PCG64(7)).normal(0.0, noise.launch_sd, (jobs, cap))
    known = RatioEstimate(ratio=1.0, low=1.0, high=1.0, pairs=100)
    ended, missed = [], 0
    for job in np.exp(drawn):
        for launches in range(minimum, cap + 1):
            night = paired_ratio(job[:launches].tolist(), [1.0] * launches, confidence)
            if may_stop(launches, minimum, cap, [judge(night, known, TIME)]):
                break
        ended.append(launches)
        missed += not (night.low or 9) <= 1 <= (night.high or 0)
    assert len(set(ended)) == 4, "every look ends some job"
    assert missed > 0
    found = simulate_stopping(noise, minimum, cap, jobs, looks, seed=7)
    assert found == Stopping(missed / jobs, sum(ended) / jobs)


def test_nights_differ_and_their_launches_share_it() -> None:
    """Noise between nights moves all launches of one alike; noise between launches moves each; none moves nothing."""
    random, pairs = np.random.default_rng(3), ((0.0, 0.2), (0.1, 0.0), (0.0, 0.0))
    nights, launches, none = (power._pairs(random, Noise(*sds), (5000, 2, 3)) for sds in pairs)
    assert nights.shape == launches.shape == (5000, 6)
    assert (nights[:, 0] == nights[:, 2]).all()
    assert (nights[:, 2] != nights[:, 3]).all()
    assert (nights.mean(), nights.std()) == pytest.approx((0.0, 0.2), abs=0.01)
    assert (launches.mean(), launches.std()) == pytest.approx((0.0, 0.1), abs=0.01)
    assert (none == 0).all()


def test_interval_of_a_night_needs_three_launches() -> None:
    """Two are refused, unless the gate looks at no interval."""
    with pytest.raises(UsageError, match="2 launches have no interval: at least 3 are needed"):
        simulate(QUIET, Design(launches=2), 10)
    assert simulate(QUIET, Design(launches=3), 10).nights == simulate(QUIET, Design(2, 1, plain=True), 10).nights == 10


def test_every_night_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More nights than fit are drawn piece by piece, and of each piece the alarms and the undecided count."""
    monkeypatch.setattr(power, "CHUNK", 100)
    sizes = []

    def drawn(random: object, noise: Noise, design: Design, size: int) -> Any:
        sizes.append(size)
        return np.where(np.arange(size) < 20, 1.0, 0.0), np.full(size, 0.5), np.full(size, 0.5)

    monkeypatch.setattr(power, "_draw", drawn)
    found = simulate(QUIET, Design(), 250)
    assert sizes == [100, 100, 50]
    assert (found.false_alarms, found.undecided, found.nights) == (60 / 250, 190 / 250, 250)


def test_the_same_nights_are_drawn_again() -> None:
    """Two runs of a command print the same table; another seed draws others."""
    first, again, other = (simulate(NOISY, Design(), 1000, seed) for seed in (1, 1, 2))
    assert (first.slip == again.slip, first.slip == other.slip) == (True, False)


def test_looks_and_launches_are_the_designs() -> None:
    """From the same draws: with three looks, or a baseline of one night, only a larger slip is caught."""
    base, *worse = (simulate(NOISY, d, 10_000).slip for d in (Design(), Design(looks=3), Design(baseline_nights=1)))
    assert min(worse) > base * 1.01


def test_rates_are_told_a_year() -> None:
    """Rates a case and night, times cases and 365 nights; without an alarm the error is as if there had been one."""
    found = Power(false_alarms=0.01, undecided=0.02, slip=0.1, nights=10_000)
    assert (found.a_year(0.01), found.a_year(0.01, 2)) == pytest.approx((73.0, 7.3))
    assert found.alarms_error == pytest.approx(0.001)
    assert Power(0.0, 0.0, 0.1, 10_000).alarms_error == pytest.approx(1e-4)


def test_table_has_a_row_a_design(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches, nights, looks or "plain", then both rates a year over so many metrics, and the slip."""
    designs = [Design(4, 2, looks=3), Design(plain=True)]

    def simulated(noise: Noise, design: Design, nights: int) -> Power:
        assert (noise, nights) == (NOISY, 500)
        return Power(0.01, 0.02, 0.125, 10_000) if design == designs[0] else Power(0.04, 0.1, 0.2, 10_000)

    monkeypatch.setattr(power, "simulate", simulated)
    assert power.lines("bad", NOISY, designs, 500, metrics=10) == [
        "bad: launches differ by 5.00%, nights by 1.50% more",
        "  launches  baseline  looks   false alarms a year  undecided a year  slip caught 95 in 100",
        "         4         2      3       36.50 +/-  3.65              73.0                 12.5%",
        "         6         5  plain      146.00 +/-  7.30             365.0                 20.0%",
    ]
    assert "73.00 +/-  7.30             146.0" in power.lines("bad", NOISY, designs, 500)[2]


def asked_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[tuple[Any, ...]]:
    """What a command line wants to have simulated: a table, then jobs that may stop early, for each noise."""
    asked: list[tuple[Any, ...]] = []

    def lines(name: str, noise: Noise, designs: Sequence[Design], nights: int, metrics: int) -> list[str]:
        asked.append((name, noise, len(designs), nights, metrics))
        return [f"table of {name}", "row"]

    def stopping(noise: Noise, minimum: int, cap: int) -> Stopping:
        asked.append((noise, minimum, cap))
        return Stopping(missed=0.043, launches=7.25)

    monkeypatch.setattr(power, "lines", lines)
    monkeypatch.setattr(power, "simulate_stopping", stopping)
    assert power.main(arguments) == 0
    return asked


def test_command_line_states_a_noise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Both deviations, nights and metrics are the options'; the output is a table and what stopping early does."""
    options = ("--launch-sd", "0.03", "--night-sd", "0.01", "--nights", "50", "--metrics", "7")
    stated = Noise(0.03, 0.01)
    assert asked_of(monkeypatch, *options) == [("stated", stated, len(power.GRID), 50, 7), (stated, 6, 12)]
    assert capsys.readouterr().out.splitlines() == [
        "table of stated",
        "row",
        "  --launches 6 --max-launches 12: 7.2 launches on average; "
        "the interval at the stop misses the truth 4.3% of the time (at most 5%)",
        "",
    ]


def test_command_line_has_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three noises, 400,000 nights of 20 metrics; a launch's deviation alone means nights that do not differ."""
    usual = asked_of(monkeypatch)[::2]
    assert usual == [
        ("quiet", QUIET, len(power.GRID), 400_000, 20),
        ("noisy", NOISY, len(power.GRID), 400_000, 20),
        ("very noisy", Noise(0.09, 0.015), len(power.GRID), 400_000, 20),
    ]
    assert asked_of(monkeypatch, "--launch-sd", "0")[1][0] == Noise(0.0, 0.0)


def test_help_tells_units_and_defaults(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every option with what it takes, and what the command is for."""
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        power.main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert [words for words in HELP if words not in said] == []


HELP = (
    "usage: python -m fixtures.gate.power [-h]",
    "False alarms and the smallest slip that is caught, by simulated nights",
    "--launch-sd FRACTION between pairs of one night: 0.02 is 2%",
    "--night-sd FRACTION on top, between nights",
    "--baseline FILE take the noise from a baseline's launches",
    "--nights COUNT simulated (default: 400000)",
    "--metrics COUNT judged a night (20)",
)


def test_noise_of_a_baseline_is_each_cases_own(tmp_path: Path) -> None:
    """From the launches of its nights; a case whose nights have one launch each says nothing and is passed over."""
    file = accepted(Job(own_sd=0.015))
    step, bare = "gpt2-rehearsal/fsdp2:ddp/step", "gpt2-rehearsal/fsdp2:ddp/peak"
    entry = file.entries[bare]
    alone = entry.model_copy(update={"nights": [[entry.ratio]] * 3, "pairs": 3})
    path = tmp_path / "cpu-gloo-4.json"
    path.write_text(render(file.model_copy(update={"entries": {step: file.entries[step], bare: alone}})))
    assert power.stored_noise(path) == {step: pytest.approx(noise_of(file.entries[step].nights), rel=1e-3)}


def test_command_line_reads_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--baseline`` prints a table for every case; a file without launches is an error of one line."""
    file = accepted(Job(own_sd=0.015))
    path = tmp_path / "cpu-gloo-4.json"
    path.write_text(render(file))
    assert power.main(["--baseline", str(path), "--nights", "1000"]) == 0
    assert "gpt2-rehearsal/fsdp2:ddp/step: launches differ by" in capsys.readouterr().out
    bare = {case_id: entry.model_copy(update={"nights": []}) for case_id, entry in file.entries.items()}
    path.write_text(render(file.model_copy(update={"entries": bare})))
    assert power.main(["--baseline", str(path)]) == 2
    assert "holds no launches" in capsys.readouterr().err


def test_noisier_launches_move_both_figures() -> None:
    """More noise: more false alarms and a larger slip; more launches or more nights: a smaller slip."""
    base, noisier = simulate(NOISY, Design(), 10_000), simulate(Noise(0.07, 0.015), Design(), 10_000)
    more = [simulate(NOISY, design, 10_000) for design in (Design(launches=12), Design(baseline_nights=20))]
    assert noisier.false_alarms > base.false_alarms
    assert noisier.slip > base.slip > max(found.slip for found in more)
