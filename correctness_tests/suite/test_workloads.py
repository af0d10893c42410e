"""A workload is found by name or by ``package.module:factory``, or one clear error says why not."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from fixtures.errors import UsageError
from fixtures.ledger import num_params
from fixtures.workloads import REGISTRY, Workload, describe, mlp, move_batch, resolve_workload

pytestmark = pytest.mark.cpu

WriteModule = Callable[[str], str]


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> WriteModule:
    """Write a user's module; returns a name that can be imported and that no other test uses."""
    name = f"users_module_{abs(hash(request.node.nodeid))}"
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str) -> str:
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


@pytest.mark.parametrize("name", REGISTRY)
def test_registered_names_resolve_to_their_workload(name: str) -> None:
    """Every registered name gives the workload of that name, and its rehearsal, where it has one, is registered."""
    workload = resolve_workload(name)
    assert workload.name == name
    assert workload.rehearsal is None or workload.rehearsal in REGISTRY


def test_gpt2_large_is_the_experiments() -> None:
    """gpt2-large is 774,090,240 parameters on 4 x 1024 tokens a rank, optimized by AdamW at lr 3e-4."""
    workload = resolve_workload("gpt2-large")
    record = describe(workload)
    parameters = [nn.Parameter(torch.zeros(1))]
    optimizer = workload.optimizer(parameters)
    assert (record.num_params, record.tokens_per_batch) == (774_090_240, 4096)
    assert type(optimizer) is torch.optim.AdamW
    assert optimizer.defaults == torch.optim.AdamW(parameters, lr=3e-4, foreach=True).defaults
    assert workload.batch(torch.Generator()).shape == (4, 1025)  # 1024 inputs, and their successors


def test_a_users_factory_is_called(write_module: WriteModule) -> None:
    """module:factory imports the module and returns what the factory returns."""
    name = write_module("from fixtures.workloads import mlp\ndef mine():\n    return mlp('mine', layers=2)\n")
    assert resolve_workload(f"{name}:mine").name == "mine"


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A name that is not registered names itself, the registered ones and the way to a user's own."""
    with pytest.raises(UsageError, match=r"unknown workload 'gpt3'.*gpt2-large.*mlp.*package\.module:factory"):
        resolve_workload("gpt3")


BROKEN = {
    "no such module": (None, ":factory", r"importing '\w+' raised ModuleNotFoundError.*set PYTHONPATH"),
    "module raises": ("1 / 0", ":factory", r"raised ZeroDivisionError: division by zero \(at .*\.py:1\)"),
    "no attribute": ("", ":factory", r"has no attribute 'factory'.*function without arguments"),
    "no factory named": ("", ":", r"has no attribute ''"),
    "not callable": ("factory = 3", ":factory", r"not callable as 'factory'"),
    "factory raises": ("def factory():\n    raise KeyError('x')", ":factory", r"its factory raised KeyError.*py:2\)"),
    "wants arguments": ("def factory(size): ...", ":factory", r"factory raised TypeError.*'size'"),
    "returns a model": ("from torch import nn\nfactory = lambda: nn.Linear(1, 1)", ":factory", r"returned a Linear"),
    "returns nothing": (
        "def factory(): ...",
        ":factory",
        r"returned a NoneType\. Return a fixtures\.workloads\.Workload",
    ),
}


@pytest.mark.parametrize(("source", "suffix", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_reference_that_does_not_lead_to_a_workload_is_one_usage_error(
    write_module: WriteModule, source: str | None, suffix: str, message: str
) -> None:
    """Whatever is wrong with a user's reference, one UsageError names the reference, the cause and the remedy."""
    reference = ("no_such_module_anywhere" if source is None else write_module(source)) + suffix
    with pytest.raises(UsageError, match=message) as error:
        resolve_workload(reference)
    assert repr(reference) in str(error.value)
    assert "\n" not in str(error.value)


class Tied(nn.Module):
    """Two linear maps that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight


class ReadsValues(nn.Module):
    """A model that reads a value while it is built, which the meta device has not."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, int(torch.full((), 3.0).item()))


def described(model: Callable[[], nn.Module]) -> tuple[int, str]:
    """Parameter count and shape hash of a workload with that model."""
    record = describe(replace(mlp(), model=model))
    return record.num_params, record.shape_hash


def test_tied_parameters_count_once() -> None:
    """Psi counts a shared weight once."""
    assert described(Tied)[0] == 9


def test_a_model_that_meta_cannot_build_is_described_on_the_cpu() -> None:
    """Code that needs real values while it is built is counted all the same: 2 x 3 weights and 3 biases."""
    assert described(ReadsValues)[0] == 9


def test_the_shape_hash_follows_names_shapes_and_dtypes() -> None:
    """The hash is the same for the same shapes, whatever the values, and another for another name, shape or dtype."""
    base = described(lambda: nn.Sequential(nn.Linear(2, 3)))[1]
    assert described(lambda: nn.Sequential(nn.Linear(2, 3)))[1] == base
    others = [
        described(lambda: nn.ModuleDict({"other": nn.Linear(2, 3)}))[1],
        described(lambda: nn.Sequential(nn.Linear(3, 2)))[1],
        described(lambda: nn.Sequential(nn.Linear(2, 3)).double())[1],
    ]
    assert len({base, *others}) == 4


def test_the_units_are_recorded_by_name() -> None:
    """Every block of GPT-2 Large is alike, so its record is short; shapes come as the ledger takes them, root last."""
    record = describe(resolve_workload("gpt2-large"))
    assert [(unit.name, unit.count) for unit in record.units] == [("block", 36), ("root", 1)]
    assert record.units[0].parameters["feed_forward.up.weight"] == [5120, 1280]
    assert len(record.unit_shapes) == 37
    assert num_params([shape for unit in record.unit_shapes for shape in unit]) == record.num_params


def test_units_that_cannot_be_told_are_left_out() -> None:
    """A blocks function that raises is for the check of the workload to name; the description goes without units."""
    assert describe(replace(mlp(), model=lambda: nn.Linear(2, 2))).units == []


def test_a_model_function_that_raises_is_a_usage_error() -> None:
    """describe on a workload whose model cannot be built names the workload and the error."""
    with pytest.raises(UsageError, match=r"workload 'mlp': building its model raised ZeroDivisionError"):
        described(lambda: nn.Linear(1, 1 // 0))


def test_a_batch_moves_whole() -> None:
    """A batch of nested containers keeps its structure and moves every tensor."""
    meta = torch.device("meta")
    moved = move_batch({"x": torch.ones(2), "pair": (torch.ones(1), [torch.ones(3)])}, meta)
    assert moved["x"].device == moved["pair"][0].device == moved["pair"][1][0].device == meta
    assert isinstance(moved["pair"], tuple)


def test_a_batch_of_something_else_is_a_usage_error() -> None:
    """A batch that holds anything but tensors names the type it holds."""
    with pytest.raises(UsageError, match="a batch holds a str"):
        move_batch([torch.ones(1), "text"], torch.device("cpu"))


def test_the_documented_example_is_a_workload() -> None:
    """The example in Workload's docstring runs as it stands there."""
    from fixtures.workload_checks import check_workload

    example = inspect.cleandoc(Workload.__doc__ or "").split("::\n\n")[1].split("\n\nEvery rank")[0]
    scope = {"torch": torch, "Workload": Workload, "MyModel": LayeredModel}
    exec(textwrap.dedent(example), scope)
    check_workload(scope["my_model"]())  # type: ignore[operator]


class LayeredModel(nn.Module):
    """What the docstring calls MyModel."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layers in order; (B, 64) -> (B, 64)."""
        for layer in self.layers:
            x = layer(x)
        return x
