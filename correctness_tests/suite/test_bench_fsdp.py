"""The experiment's command line writes what ``--from-results`` can judge.

The test stands in for torchrun: it sets the same variables and keeps the store, on loopback only, where torchrun's own
listens on every interface. Its ranks are forked, which saves two starts of torch; CI runs the real torchrun besides.
"""

from __future__ import annotations

import csv
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from fixtures.measurements import Measurement
from fixtures.platforms import Platform
from fixtures.ranks.pool import RankPool
from fixtures.ranks.worker import current
from fixtures.report.csvfile import COLUMNS
from perf_tests import bench_fsdp

pytestmark = pytest.mark.cpu

WORLD_SIZE = 2
COMMON = ("--device", "cpu", "--workload", "mlp", "--warmup-steps", "1", "--steps", "2")


def as_from_torchrun(port: int, *arguments: str) -> int:
    """On a rank that leaves its group: run the script as torchrun starts it; its exit status."""
    dist.destroy_process_group()
    common = {"WORLD_SIZE": WORLD_SIZE, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    own = {"RANK": current().rank, "LOCAL_RANK": current().rank, "TORCHELASTIC_USE_AGENT_STORE": True}
    os.environ |= {name: str(value) for name, value in (common | own).items()}
    return bench_fsdp.main([*COMMON, *arguments])


def launch(*arguments: str) -> None:
    """Run the script on two ranks; a rank that fails has said why."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        store = dist.TCPStore(  # type: ignore[attr-defined]
            "127.0.0.1",
            port,
            WORLD_SIZE,
            is_master=True,
            timeout=timedelta(seconds=60),
            wait_for_workers=False,
            master_listen_fd=server.detach(),
        )
    with RankPool(Platform.cpu(WORLD_SIZE)) as pool:
        assert pool.run(as_from_torchrun, port, *arguments) == [0] * WORLD_SIZE
    del store


@pytest.fixture(scope="module")
def measurement(tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    """What ``--mode fsdp2 --no-reshard --out launch.json`` wrote, launched once for this file."""
    out = tmp_path_factory.mktemp("bench") / "launch.json"
    launch("--mode", "fsdp2", "--no-reshard", "--out", str(out))
    return Measurement.model_validate_json(out.read_text())


def test_json_holds_every_ranks_samples(measurement: Measurement) -> None:
    """A ``.json`` is one launch of the arm that the options name, with the timed steps of every rank."""
    assert measurement.strategy == "fsdp2-noreshard"
    assert [len(rank.step_ms) for rank in measurement.ranks] == [2, 2]


def test_csv_has_the_experiments_columns_and_labels(measurement: Measurement, tmp_path: Path) -> None:
    """A ``.csv`` gets one row labelled fsdp2-noreshard under the experiment's header."""
    line = bench_fsdp.write(measurement, tmp_path / "night.csv")
    with (tmp_path / "night.csv").open() as file:
        header, row = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert row[:2] == ["fsdp2-noreshard", "2"]
    assert all(float(figure) > 0 for figure in row[2:])
    assert line.startswith("fsdp2-noreshard on cpu-gloo-2: resident ")


BAD = [
    (("--mode", "ddp", "--no-reshard", "--out", "x.csv"), "--no-reshard belongs to --mode fsdp2, not ddp"),
    (("--mode", "ddp", "--out", "x.txt"), "--out x.txt: name a .csv or a .json file"),
    (("--mode", "ddp", "--out", "x.csv", "--steps", "0"), "--steps 0 is too few"),
    (("--mode", "ddp", "--out", "x.csv", "--workload", "nonesuch"), "unknown workload 'nonesuch'"),
    (("--mode", "ddp", "--out", "x.csv", "--workload", "mlp"), "no WORLD_SIZE in the environment"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_one_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Bad input gives exit status 2 and one line that names it; nothing is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert bench_fsdp.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
