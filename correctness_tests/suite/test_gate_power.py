"""The simulated nights are the gate's: same verdicts, the published table, and error rates that hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from correctness_tests.suite.synthetic import Job, accepted
from fixtures.gate import power
from fixtures.gate.baselines import render
from fixtures.gate.noise import Noise
from fixtures.gate.power import NOISY, QUIET, Design, simulate, simulate_stopping
from fixtures.gate.statistics import paired_ratio
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
