"""Two nodes on one machine: two agents of torchrun on loopback, two gloo ranks each, judged from what the ranks wrote.

    python -m correctness_tests.suite.two_nodes [--out DIR]

Three launches of ddp and of fsdp2 are recorded as a baseline, judged by it (PASS), and judged again without the second
node's files of one launch (INVALID). Exit status 1 when either verdict is another. A minute or two.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from fixtures.experiment import balanced_order
from fixtures.report.parts import part_path

SUITE = Path(__file__).resolve().parents[2]
MODES, ROUNDS, NODES, RANKS_A_NODE = ("ddp", "fsdp2"), 3, 2, 2
DEADLINE_S = 180


def launch(mode: str, out: Path) -> None:
    """One launch: an agent a node, which meet at a free port of loopback. RuntimeError with the output of both."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    agents = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={NODES}", f"--node-rank={node}"),
                *(f"--nproc-per-node={RANKS_A_NODE}", "--rdzv-backend=c10d", "--rdzv-id=two-nodes"),
                *(f"--rdzv-endpoint=127.0.0.1:{port}", "--local-addr=127.0.0.1"),
                *(str(SUITE / "perf_tests" / "bench_fsdp.py"), "--device", "cpu", "--workload", "gpt2-rehearsal"),
                *("--warmup-steps", "1", "--steps", "2", "--mode", mode, "--out", str(out)),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(NODES)
    ]
    try:
        outputs = [agent.communicate(timeout=DEADLINE_S)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    if any(agent.returncode for agent in agents):
        raise RuntimeError(f"a launch of {mode} failed:\n" + "\n".join(outputs))


def judged(results: Path, baselines: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a session that judges what the ranks wrote."""
    command = [sys.executable, "-m", "pytest", str(SUITE / "perf_tests"), "-m", "gpu", "-k", "fsdp2:ddp"]
    options = ["--from-results", str(results), "--baselines", str(baselines), "-p", "no:cacheprovider", *arguments]
    done = subprocess.run([*command, *options], cwd=SUITE, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    """Launch, judge, take a node away, judge again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the files here (default: a folder that goes)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="two-nodes-") as temporary:
        out = options.out or Path(temporary) / "night"
        baselines = Path(temporary) / "baselines"
        for order, (mode, number) in enumerate(balanced_order(MODES, ROUNDS)):
            launch(mode, out)
            files = sorted(path.name for path in part_path(out, mode, order, 0).parent.iterdir())
            print(f"launch {number} of {mode}: {', '.join(files)}", flush=True)
        record = ("--update-baselines", "--write-baselines", "--allow-dirty", "--reason", "two nodes")
        outcomes = [judged(out, baselines, *record), judged(out, baselines)]
        for rank in range(RANKS_A_NODE, NODES * RANKS_A_NODE):
            part_path(out, "fsdp2", 1, rank).unlink()
        outcomes.append(judged(out, baselines))
    expected = [(0, "PASS"), (0, "PASS"), (1, "has samples of ranks [0, 1], not of all 4")]
    for (status, text), (wanted, said), what in zip(
        outcomes, expected, ("recorded", "judged", "judged without a node"), strict=True
    ):
        good = status == wanted and said in " ".join(text.split())
        print(f"{what}: exit status {status}, {'as it must be' if good else f'not {wanted} with {said!r}:' + text}")
        if not good:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
