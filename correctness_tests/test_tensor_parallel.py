"""FSDP2 over tensor parallelism on a 2 x 2 mesh: forward, gradients and checkpoint are the plain model's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from correctness_tests.meshes import mesh_of_two
from correctness_tests.training import check_same, whole
from correctness_tests.versions import wrong_on_torch_2_9
from fixtures.ranks.pool import RankPool

pytestmark = pytest.mark.cpu

DATA, TENSOR = 2, 2
HIDDEN = {"even": 8, "uneven": 6}
"""Rows of the first weight: 4 or 3 for each tensor-parallel rank, which two data-parallel ranks share evenly or not."""
ROWS = [
    "even",
    pytest.param(
        "uneven",
        marks=wrong_on_torch_2_9("rows that two shardings cut unevenly come back as zeros, or as others' rows"),
    ),
]
MEANING = "Whole numbers: nothing is rounded, so a reduction over one of the two mesh dimensions is missing or doubled."


class MLP(nn.Module):
    """Two projections around a ReLU, of whole numbers, (B, 4) -> (B, 4); F hidden units."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(4, hidden)
        self.down = nn.Linear(hidden, 4, bias=False)
        with torch.no_grad():
            for i, parameter in enumerate(self.parameters()):
                parameter.copy_(((torch.arange(parameter.numel()) + i) * 3 % 5 - 2).float().view(parameter.shape))

    def forward(self, x: Tensor) -> Tensor:
        """Apply both."""
        y: Tensor = self.down(torch.relu(self.up(x)))
        return y


def sharded_mlp(hidden: int) -> tuple[MLP, int]:
    """On a rank: the model cut by columns and rows over TENSOR ranks, then sharded over DATA; and its data rank."""
    mesh = mesh_of_two(DATA, TENSOR, ("data", "tensor"))
    model = MLP(hidden)
    parallelize_module(model, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    return model, mesh.get_local_rank("data")


def batch_of(data_rank: int) -> Tensor:
    """The batch that the tensor-parallel ranks of one data rank share, (3, 4), whole numbers."""
    return torch.randint(-2, 3, (3, 4), generator=torch.Generator().manual_seed(data_rank)).float()


def loss_of(output: Tensor) -> Tensor:
    """Linear in the output, 0-dim."""
    return (output * torch.tensor([1.0, -1.0, 2.0, 1.0])).sum()


def pass_of_this_rank(hidden: int) -> tuple[int, Tensor, dict[str, Tensor], dict[str, tuple[str, ...]]]:
    """On a rank: its data rank, output, whole gradients, and the mesh dimensions that cut each parameter."""
    model, data_rank = sharded_mlp(hidden)
    output = model(batch_of(data_rank))
    loss_of(output).backward()  # type: ignore[no-untyped-call]
    gradients, cut = {}, {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert isinstance(parameter, DTensor)
        gradients[name] = whole(parameter.grad)
        names = parameter.device_mesh.mesh_dim_names or ()
        cut[name] = tuple(n for n, p in zip(names, parameter.placements, strict=True) if not p.is_replicate())
    return data_rank, output.detach().clone(), gradients, cut


def check_pass(pool: RankPool, hidden: int) -> None:
    """Fail unless outputs and gradients are those of the plain model on both data ranks' batches, bit for bit."""
    plain = MLP(hidden)
    outputs = [plain(batch_of(r)) for r in range(DATA)]
    sum(map(loss_of, outputs), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
    expected = {name: p.grad / DATA for name, p in plain.named_parameters() if p.grad is not None}
    for rank, (data_rank, output, gradients, cut) in enumerate(pool.run(pass_of_this_rank, hidden)):
        where = f"rank {rank} of a {DATA} x {TENSOR} mesh"
        check_same({"output": output}, {"output": outputs[data_rank].detach()}, where, MEANING)
        check_same(gradients, expected, f"{where}, gradient", MEANING)
        lost = {name: dims for name, dims in cut.items() if dims != ("data", "tensor")}
        assert not lost, f"{where}: mesh dimensions that cut a parameter: {lost}, expected both of each"


def save_on_mesh(directory: Path, hidden: int) -> None:
    """On a rank: save the model sharded both ways."""
    model, _ = sharded_mlp(hidden)
    save({"model": get_model_state_dict(model)}, checkpoint_id=directory)


def load_on_mesh(directory: Path, hidden: int) -> dict[str, Tensor]:
    """On a rank: load into a model of zeros sharded both ways, and return its parameters, whole."""
    model, _ = sharded_mlp(hidden)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    load({"model": get_model_state_dict(model)}, checkpoint_id=directory)
    return {name: whole(p) for name, p in model.named_parameters()}


def load_plain(directory: Path, hidden: int) -> dict[str, Tensor]:
    """Load into a plain model of zeros, in a process without ranks."""
    model = MLP(hidden)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    load({"model": model.state_dict()}, checkpoint_id=directory, no_dist=True)
    return {name: whole(p) for name, p in model.named_parameters()}


@pytest.mark.parametrize("rows", ROWS)
def test_a_pass_is_the_plain_models(ranks: Callable[[int], RankPool], rows: str) -> None:
    """Output and gradients on four ranks equal the plain model's, bit for bit, and each parameter is cut both ways."""
    check_pass(ranks(DATA * TENSOR), HIDDEN[rows])


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # a plain load is meant
@pytest.mark.parametrize("rows", ROWS)
def test_a_checkpoint_is_the_plain_models(ranks: Callable[[int], RankPool], tmp_path: Path, rows: str) -> None:
    """What the mesh saved loads into a plain model and into the mesh again, bit for bit, by the same names."""
    pool, hidden = ranks(DATA * TENSOR), HIDDEN[rows]
    pool.run(save_on_mesh, tmp_path, hidden)
    expected = {name: p.detach() for name, p in MLP(hidden).named_parameters()}
    check_same(load_plain(tmp_path, hidden), expected, "loaded into a plain model", "Rows went to other places.")
    for rank, found in enumerate(pool.run(load_on_mesh, tmp_path, hidden)):
        check_same(found, expected, f"rank {rank}, loaded into the mesh", "Rows went to other places.")
