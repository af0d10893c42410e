"""A failure names the collective that each rank had not finished, from torch's flight recorder."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from correctness_tests.suite import flight_jobs
from correctness_tests.suite.synthetic import Job
from fixtures import experiment
from fixtures.experiment import Plan
from fixtures.measurements import Measurement, Settings
from fixtures.platforms import Platform
from fixtures.ranks.failures import FailureKind, RankFailure, RanksFailedError
from fixtures.ranks.flight import TORCHS_OWN, file_of, read_records, recorder_environment, unfinished
from fixtures.ranks.pool import RankPool
from fixtures.report.results import load_results
from fixtures.session.kept import Kept

pytestmark = pytest.mark.cpu


def entry(number: int, *, retired: bool = False, name: str = "nccl:all_reduce", **more: Any) -> dict[str, Any]:
    """As torch writes it."""
    return {
        "collective_seq_id": number,
        "input_dtypes": ["Float"],
        "input_sizes": [[4]],
        "is_p2p": False,
        "output_sizes": [[4]],
        "process_group": ["0", "default_pg"],
        "profiling_name": name,
        "retired": retired,
        **more,
    }


def failure(pool: RankPool, job: Callable[[], None], deadline_s: float) -> RanksFailedError:
    """What the job on this pool fails with."""
    with pytest.raises(RanksFailedError) as caught:
        pool.run(job, deadline_s=deadline_s)
    return caught.value


def test_hang_names_the_collective(ranks: Callable[[int], RankPool]) -> None:
    """Rank 0 waits in the second all-reduce, which rank 1 never entered: both are said, from ranks that hang."""
    error = failure(ranks(2), flight_jobs.one_stays_away, 2.0)
    lines = str(error).splitlines()
    place = lines.index("collectives that were begun and not finished:")
    waits, away = lines[place + 1 : place + 3]
    assert waits.startswith("  rank 0: gloo:all_reduce, number "), lines
    assert waits.endswith(" of default_pg, Float [[5]] -> [[5]]")
    assert away.startswith("  rank 1: none; its last was gloo:all_reduce, number ")
    assert away.endswith(" of default_pg, Float [[3]] -> [[3]]")
    assert error.records[0]["entries"][-1]["output_sizes"] == [[5]]


def test_out_of_memory_names_where_the_others_wait(ranks: Callable[[int], RankPool]) -> None:
    """The rank that ran out of memory comes first, with its last collective; the other is in the next one."""
    text = str(failure(ranks(2), flight_jobs.one_runs_out_of_memory, 20.0))
    assert text.startswith("rank 1 of 2 raised OutOfMemoryError: CUDA out of memory.")
    assert "of default_pg, Float [[5]] -> [[5]]" in text
    assert "  rank 1: none; its last was gloo:all_reduce" in text


def test_record_that_torch_wrote_is_read(tmp_path: Path) -> None:
    """Where NCCL's watchdog ended the process there is torch's pickle; a rank's own JSON is read beside it."""
    (tmp_path / f"{TORCHS_OWN}3").write_bytes(pickle.dumps({"entries": [entry(7, name="nccl:_all_gather_base")]}, 2))
    file_of(tmp_path, 0).write_text(json.dumps({"entries": [entry(6, retired=True)]}))
    assert unfinished(read_records(tmp_path, range(4))) == {
        0: "none; its last was nccl:all_reduce, number 6 of default_pg, Float [[4]] -> [[4]]",
        3: "nccl:_all_gather_base, number 7 of default_pg, Float [[4]] -> [[4]]",
    }


@pytest.mark.parametrize("content", [b"", b"{", b"\x80\x02garbage", pickle.dumps(Path("x")), b'{"entries": []}'])
def test_broken_record_is_no_record(tmp_path: Path, content: bytes) -> None:
    """Half a file, or a pickle that would make an object, is passed over: it must not hide the failure itself."""
    (tmp_path / f"{TORCHS_OWN}0").write_bytes(content)
    file_of(tmp_path, 1).write_bytes(content)
    assert read_records(tmp_path, range(2)) == {}


def test_nothing_is_said_when_all_had_finished() -> None:
    """Ranks that fail outside of any collective have no line."""
    assert unfinished({0: {"entries": [entry(1, retired=True)]}}) == {}
    assert unfinished({}) == {}


def test_long_queue_is_cut() -> None:
    """Three of the collectives in flight, and how many more."""
    text = unfinished({0: {"entries": [entry(n) for n in range(9)]}})[0]
    assert text.endswith("number 2 of default_pg, Float [[4]] -> [[4]]; and 6 more")


def test_only_accelerators_are_told_where_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All ranks record; only NCCL's watchdog writes by itself, to the pool's folder. A user's own values stay."""
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "50")
    assert recorder_environment("cpu", tmp_path) == {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
    given = recorder_environment("cuda", tmp_path)
    assert "TORCH_FR_BUFFER_SIZE" not in given
    assert given["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert given["TORCH_FR_DUMP_TEMP_FILE"] == str(tmp_path / TORCHS_OWN)


def test_records_are_kept_and_the_other_arms_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that fails leaves its ranks' records beside the launches of the others, which still load."""
    drawn = iter(Job(launches=9).measurements())
    told = {1: {"entries": [entry(7)]}}

    def launch(plan: Plan, strategy: str, launch: int, order: int, watch: object) -> Measurement:
        if strategy == "ddp":
            lost = RankFailure(1, FailureKind.EXCEPTION, "raised DistBackendError: NCCL timeout", 1.0)
            error = RanksFailedError([lost], world_size=4, platform="cpu-gloo-4", job="x", collectives=unfinished(told))
            error.records = told
            raise error
        return next(drawn).model_copy(update={"strategy": strategy, "launch": launch})

    monkeypatch.setattr(experiment, "_launch", launch)
    monkeypatch.setattr(experiment, "machine_lock", lambda on_wait: nullcontext())  # nothing is measured
    outcome = experiment.run(Plan(Platform.cpu(4), "mlp", 3, Settings()), lambda done: None, lambda line: None)
    assert "rank 1: nccl:all_reduce, number 7 of default_pg" in outcome.failures["ddp"]
    kept = Kept()
    kept.keep_measurements(tmp_path / "night", outcome.measurements)
    kept.keep_records(None, outcome.records)
    assert kept.unsaved == []
    assert json.loads((tmp_path / "night" / "failed" / "ddp-rank-1.json").read_text()) == told[1]
    assert {m.strategy for m in load_results(tmp_path / "night")} == {"fsdp2", "fsdp2-noreshard"}
    assert len(outcome.measurements) == 6
