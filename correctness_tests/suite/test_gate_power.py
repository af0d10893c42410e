"""The simulated nights are the gate's: same verdicts, the published table, and error rates that hold."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from correctness_tests.suite.synthetic import Job, accepted
from fixtures.gate import power
from fixtures.gate.baselines import render
from fixtures.gate.noise import Noise, noise_of, smallest_slip
from fixtures.gate.power import NOISY, QUIET, Design, simulate, simulate_stopping
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


def test_noise_is_read_from_stored_launches() -> None:
    """Over 400 nights of 6, the analysis of variance returns what was drawn: within nights to 5%, between to 15%."""
    draw = random.Random(1)
    nights = []
    for _ in range(400):
        night = draw.gauss(0, 0.03)
        nights.append([math.exp(night + draw.gauss(0, 0.05)) for _ in range(6)])
    found = noise_of(nights)
    assert found.launch_sd == pytest.approx(0.05, rel=0.05)
    assert found.night_sd == pytest.approx(0.03, rel=0.15)


def test_noise_of_unequal_nights_is_the_one_worked_out_by_hand() -> None:
    """Nights of 2, 3 and 4 pairs: sums of squares 0.07 within (6 degrees) and 0.19222 between (2), size 2.8889."""
    logs = [[0.0, 0.2], [0.4, 0.6, 0.5], [0.3, 0.3, 0.3, 0.5]]
    found = noise_of([[math.exp(x) for x in night] for night in logs])
    assert found.launch_sd == pytest.approx(math.sqrt(0.07 / 6))
    assert found.night_sd == pytest.approx(math.sqrt((0.1922222 / 2 - 0.07 / 6) / 2.8888889), rel=1e-6)


def test_nights_that_their_pairs_explain_do_not_differ() -> None:
    """Means closer than the pairs' own spread makes likely, and a single night, say nothing of nights: 0."""
    wide = [[math.exp(x) for x in (-0.2, 0.2)], [math.exp(x) for x in (-0.19, 0.21)]]
    assert [noise_of(nights).night_sd for nights in (wide, wide[:1])] == [0.0, 0.0]
    assert noise_of(wide[:1]).launch_sd == pytest.approx(math.sqrt(0.08))


def test_nights_of_one_pair_have_no_known_noise() -> None:
    """Without a night of two pairs the noise can't be read, and the smallest slip is told as if there were none."""
    with pytest.raises(ValueError, match="2 pairs over 2 nights: no night has two"):
        noise_of([[1.0], [1.5]])
    estimate = paired_ratio([1.0, 1.01, 1.02, 1.0], [1.0] * 4)
    alone = smallest_slip(estimate, None, 0.10)
    assert alone is not None
    assert smallest_slip(estimate, None, 0.10, nights=[[1.0], [1.5]]) == alone


def test_noise_beyond_the_tolerance_moves_the_smallest_slip() -> None:
    """Where both intervals together reach beyond 10%, they bound the slip: half-widths and errors as a hypotenuse."""
    wide = RatioEstimate(ratio=1.0, low=math.exp(-0.3), high=math.exp(0.3), pairs=4)
    wider = RatioEstimate(ratio=1.0, low=math.exp(-0.4), high=math.exp(0.4), pairs=4)
    expected = 0.5 + 1.6448536 * 0.5 / 3.1824463  # 0.3 and 0.4 make 0.5; t(0.975, 3)
    assert smallest_slip(wide, wider, 0.10) == pytest.approx(math.expm1(expected), rel=1e-6)
    assert smallest_slip(RatioEstimate(ratio=1.0, pairs=2), wider, 0.10) is None


def test_smallest_slip_is_the_one_caught() -> None:
    """What a verdict says it could see is seen 95 times in 100 by nights of that noise, within 3 in 100."""
    draw = random.Random(4)
    baseline = paired_ratio([math.exp(draw.gauss(0, 0.02)) for _ in range(30)], [1.0] * 30)
    said, caught, truth = [], 0, 1.1 * math.exp(1.645 * 0.02 / math.sqrt(6)) * baseline.ratio
    for _ in range(1000):
        night = paired_ratio([truth * math.exp(draw.gauss(0, 0.02)) for _ in range(6)], [1.0] * 6)
        said.append(smallest_slip(night, None, 0.10) or 0)
        caught += night.ratio / baseline.ratio - 1 > 0.10 and (night.low or 0) > baseline.ratio
    assert caught / 1000 == pytest.approx(0.95, abs=0.03)
    assert sorted(said)[500] == pytest.approx(1.1 * math.exp(1.645 * 0.02 / math.sqrt(6)) - 1, abs=0.003)


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
