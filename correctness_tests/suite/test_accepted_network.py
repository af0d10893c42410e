"""Property: a slower network is told from slower software, by the accepted bandwidth table, and gates nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from correctness_tests.suite.judging import GPUS, NIGHT, Judge, judge, slipped
from correctness_tests.suite.synthetic import CPU4, accepted
from fixtures.bandwidth import KINDS, Bandwidth, BandwidthTable
from fixtures.errors import UsageError
from fixtures.gate.baselines import platforms
from fixtures.gate.networks import (
    LARGE,
    NetworkFile,
    find_network,
    load_network,
    moves,
    network_line,
    network_path,
    render_network,
    write_network,
)
from fixtures.measurements import PlatformRecord
from fixtures.report.bandwidth import save_bandwidth
from fixtures.report.pictures.bandwidth import bandwidth
from fixtures.report.results import save_results

pytestmark = pytest.mark.cpu

__all__ = ["judge"]  # the fixture

SIZES = (1024, 8 * 1024, LARGE, 8 * LARGE, 64 * LARGE)


def table(small: float = 1.0, **factors: float) -> BandwidthTable:
    """A table of 8 ranks; ``small`` scales what is below ``LARGE``, ``all_reduce=0.8`` a kind."""
    rows = [
        Bandwidth(
            kind=kind,
            dtype="float32",
            bytes=size,
            gb_per_s=10 * factors.get(kind.replace("-", "_"), 1.0) * (small if size < LARGE else 1.0),
        )
        for kind in KINDS
        for size in SIZES
    ]
    return BandwidthTable(source="measured", world_size=8, rows=rows)


def stored(platform: PlatformRecord = GPUS) -> NetworkFile:
    """The quiet night's table, accepted."""
    return NetworkFile(platform=platform, reason="the first night", date="2026-05-02", rows=table().rows)


def test_the_kind_that_moved_is_named() -> None:
    """All-reduce 21% slower is said with its kind and sign; the kinds that held are not."""
    line = network_line(table(all_reduce=0.79, all_gather=1.02), stored(), GPUS)
    assert line == "the network: all-reduce -21% against the table accepted 2026-05-02: slower tonight"
    assert network_line(table(all_gather=1.3), stored(), GPUS).endswith(
        "all-gather +30% against the table accepted 2026-05-02: faster tonight"
    )


def test_a_network_that_held_is_as_it_was() -> None:
    """Within 5% the network is as it was, with its largest move."""
    assert network_line(table(all_reduce=1.01), stored(), GPUS) == "the network is as it was (+1%)"


def test_small_messages_decide_nothing() -> None:
    """Messages below 1 MiB ten times slower move no kind; where there is no larger one, the largest counts alone."""
    assert [move.ratio for move in moves(table(small=0.1), table())] == [pytest.approx(1.0)] * 3
    only_small = BandwidthTable(source="x", world_size=8, rows=[r for r in table(small=0.5).rows if r.bytes < LARGE])
    found = moves(only_small, table())
    assert [move.ratio for move in found] == [pytest.approx(0.5)] * 3
    assert {move.messages for move in found} == {1}


def test_what_can_not_be_compared_is_said() -> None:
    """Another N, no common message, no accepted table: a sentence, and never a guess."""
    other = table().model_copy(update={"world_size": 4})
    assert "no message in common" in network_line(other, stored(), GPUS)
    assert "no accepted table" in network_line(table(), None, GPUS)


def test_on_a_cpu_it_is_shown_only() -> None:
    """Ranks that share cores say nothing of a network, and the line says so."""
    assert network_line(table(), stored(CPU4), CPU4).endswith("(shown only: ranks share this machine's cores)")


def test_a_stored_table_is_read_back(tmp_path: Path) -> None:
    """What was accepted is read back as it was, and a platform's own file alone is its own."""
    path = write_network(tmp_path, stored(), replaces=None)
    assert (path, find_network(tmp_path, GPUS.key)) == (network_path(tmp_path, GPUS.key), stored())
    assert find_network(tmp_path, "cpu-gloo-4") is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"format": 1', '"format": 2', "newer"),
        ('"format": 1', '"format": true', "must be a number"),
        ('"world_size": 8', '"world_size": 4', "must be called"),
        ('"gb_per_s": 10.0', '"gb_per_s": NaN', "NaN"),
        ('"gb_per_s": 10.0', '"gb_per_s": 0', "greater than 0"),
        ('"bytes": 1024,', '"bytes": 8192,', "json: rows: a message is there twice"),
        ('"reason": "the first night"', '"reason": ""', "reason"),
        ('"date"', '"when": 1, "date"', "when"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Each fault is one UsageError with the file and what is wrong, and the file stays as it was."""
    path = write_network(tmp_path, stored(), replaces=None)
    path.write_text(broken := path.read_text().replace(old, new, 1))
    with pytest.raises(UsageError, match=said) as raised:
        load_network(path)
    assert str(path) in str(raised.value)
    assert path.read_text() == broken


def night(judge: Judge, here: BandwidthTable, **step: float) -> None:
    """Store a night on which fsdp2 slipped, with its bandwidth table, and the accepted one."""
    save_results(judge.results, slipped("fsdp2", **step).measurements())
    save_bandwidth(judge.results, here)
    write_network(judge.baselines, stored(), replaces=None)


def test_a_breach_says_how_the_network_is(judge: Judge) -> None:
    """A step 14% slower on a slower network fails all the same, and its message says what the network did."""
    night(judge, table(all_gather=0.7), step=1.14, resident=1.2)
    result = judge.judge()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = "the network: all-gather -30% against the table accepted 2026-05-02: slower tonight"
    parts = " ".join(result.stdout.str().split())
    assert f"beside it {said} meaning FSDP2 takes more time" in parts
    assert parts.count("beside it") == 2  # of the two times that fail; the two of bytes have no network


def test_a_slower_network_gates_nothing(judge: Judge) -> None:
    """The same code on a network 30% slower passes, with a line at the end."""
    night(judge, table(all_reduce=0.7), step=1.0)
    result = judge.judge()
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert "the network: all-reduce -30%" in result.stdout.str()


def test_an_update_accepts_the_table(judge: Judge) -> None:
    """``--update-baselines`` of step times makes tonight's table the accepted one; the session's line is of before."""
    night(judge, table(all_reduce=0.7), step=1.02)
    result = judge.judge("--update-baselines", "--reason", "new switches")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    file = find_network(judge.baselines, GPUS.key)
    assert file is not None
    assert (file.reason, file.rows) == ("new switches", table(all_reduce=0.7).rows)


@pytest.mark.parametrize("arguments", [("-k", "resident"), ("-k", "noreshard"), ("--dry-run",)])
def test_a_table_is_accepted_with_all_step_times_only(judge: Judge, arguments: tuple[str, ...]) -> None:
    """An update of memory alone, one of some step times, or a dry run, leaves the accepted table as it was."""
    night(judge, table(all_reduce=0.7), step=1.0, resident=1.02)
    judge.judge("--update-baselines", "--reason", "a buffer", *arguments)
    assert find_network(judge.baselines, GPUS.key) == stored()


def test_step_times_that_stay_behind_are_named(judge: Judge) -> None:
    """Why an update of some step times took no table is said, with those that the baseline keeps."""
    night(judge, table(all_reduce=0.7), step=1.0)
    said = " ".join(judge.judge("--update-baselines", "--reason", "a buffer", "-k", "noreshard").stdout.str().split())
    why = "the baseline keeps step times as they were: gpt2-rehearsal/fsdp2:ddp/step measurements"
    assert f"bandwidth table not accepted: {why.removesuffix(' measurements')}" in said


@pytest.mark.parametrize("arguments", [(), ("-k", "resident")], ids=["all", "a part"])
def test_what_is_only_shown_lends_no_table(judge: Judge, arguments: tuple[str, ...]) -> None:
    """On a CPU step times are shown and not stored: an update writes the ratios of memory, and no table."""
    save_results(judge.results, replace(NIGHT, platform=CPU4).measurements())
    save_bandwidth(judge.results, table().model_copy(update={"world_size": 4}))
    result = judge.judge("--update-baselines", "--reason", "first figures", *arguments)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert sorted(path.name for path in judge.baselines.glob("cpu-*")) == ["cpu-gloo-4.json"]
    assert "the network: no accepted table on cpu-gloo-4 (shown only" in " ".join(result.stdout.str().split())


def test_a_refused_update_leaves_the_table(judge: Judge) -> None:
    """A night whose step times are refused lends no table either."""
    night(judge, table(all_reduce=0.7), step=1.2)
    judge.judge("--update-baselines", "--reason", "torch 2.14.1")
    assert find_network(judge.baselines, GPUS.key) == stored()


def test_a_baseline_of_ratios_is_not_confused(judge: Judge) -> None:
    """The table's file is no platform of its own among the baselines."""
    write_network(judge.baselines, stored(), replaces=None)
    assert platforms(judge.baselines) == [accepted(NIGHT).platform.key]


def test_the_picture_has_both_tables() -> None:
    """Measured and accepted are drawn and named; without an accepted one the words say so."""
    both, alone = bandwidth(table(all_reduce=0.7), stored().table), bandwidth(table(), shared=True)
    assert "all-reduce, accepted 2026-05-02" in both.svg
    assert "Dashed: accepted 2026-05-02" in both.description
    assert "mathdefault" not in both.svg  # an axis of less than a decade
    assert "No table was accepted yet" in alone.description
    assert "ranks share this machine's cores" in alone.title


def test_a_night_of_its_own_has_no_table(judge: Judge) -> None:
    """Results without a table say nothing of a network."""
    write_network(judge.baselines, stored(), replaces=None)
    result = judge.run(replace(NIGHT, seed=1))
    assert "the network" not in result.stdout.str()
    assert render_network(stored()).count("gb_per_s") == len(SIZES) * len(KINDS)
