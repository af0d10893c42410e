"""What FSDP2 cannot shard it refuses with an error, and leaves the module as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard

from fixtures.platforms import playing_rank

pytestmark = pytest.mark.cpu

WORLD_SIZE = 4


def mesh(*shape: int, named: bool = True) -> Any:
    """A mesh of the four ranks in this shape."""
    names = tuple("abc"[: len(shape)]) if named else None
    return init_device_mesh("cpu", shape or (WORLD_SIZE,), mesh_dim_names=names if shape else None)


def scalar() -> nn.Module:
    """A module whose second parameter is 0-dim."""
    module = nn.Linear(3, 4)
    module.register_parameter("scale", nn.Parameter(torch.tensor(2.0)))
    return module


def transposed_first() -> nn.Module:
    """A module whose first parameter is not contiguous."""
    module = nn.Linear(3, 4)
    module.weight = nn.Parameter(torch.arange(12.0).view(3, 4).t())
    return module


def transposed_last() -> nn.Module:
    """A module whose last layer's weight is not contiguous; what comes before it could be sharded."""
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3, bias=False))
    module[1].weight = nn.Parameter(torch.arange(12.0).view(4, 3).t())
    return module


def channels_last() -> nn.Module:
    """A convolution in channels_last, whose weight is not contiguous."""
    return nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def sharded_already() -> nn.Module:
    """A module that is sharded."""
    module = plain()
    fully_shard(module, mesh=mesh())
    return module


def plain() -> nn.Module:
    """A module that can be sharded."""
    return nn.Linear(3, 4)


REFUSED: dict[str, tuple[Callable[[], nn.Module], Callable[[], dict[str, Any]], type[Exception], str]] = {
    "0-dim parameter": (scalar, dict, ValueError, "scalar parameters"),
    "non-contiguous parameter": (transposed_first, dict, NotImplementedError, "non-contiguous"),
    "channels_last": (channels_last, dict, NotImplementedError, "non-contiguous"),
    "sharded twice": (sharded_already, dict, AssertionError, "has already been applied"),
    "container without forward": (lambda: nn.ModuleList([plain()]), dict, ValueError, "do not implement forward"),
    "3-D mesh": (plain, lambda: {"mesh": mesh(1, 2, 2)}, ValueError, "expects a 1D or 2D DeviceMesh"),
    "2-D mesh without names": (plain, lambda: {"mesh": mesh(2, 2, named=False)}, AssertionError, "mesh_dim_names"),
    "reshard to 3 of 4": (plain, lambda: {"reshard_after_forward": 3}, ValueError, "factor of 4"),
    "uneven on dim 1": (plain, lambda: {"shard_placement_fn": lambda p: Shard(1)}, Exception, "dim 1"),
}
"""What is refused: the module, the arguments, and the error."""


def looks(module: nn.Module) -> dict[str, Any]:
    """What must be as it was: each parameter's identity and values, each module's class."""
    parameters = {name: (id(p), p.detach().clone()) for name, p in module.named_parameters()}
    return {"parameters": parameters, "classes": [type(m).__name__ for m in module.modules()]}


def local(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's data on this rank."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def check_refusal(case: str) -> None:
    """Fail unless the case raises its error and the module's parameters and classes are the same objects as before."""
    make, arguments, error, message = REFUSED[case]
    module = make()
    before = looks(module)
    with pytest.raises(error, match=message):
        fully_shard(module, **{"mesh": mesh(), **arguments()})
    after = looks(module)
    assert after["classes"] == before["classes"], f"{case}: classes {after['classes']}, before {before['classes']}"
    for name, (identity, values) in before["parameters"].items():
        found_identity, found = after["parameters"][name]
        assert found_identity == identity, f"{case}: {name} was replaced, shape now {tuple(found.shape)}"
        assert torch.equal(local(found), local(values)), f"{case}: {name} changed its values"


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_module_is_as_it_was(case: str) -> None:
    """What cannot be sharded raises an error that names the reason; parameters and classes stay as they were."""
    with playing_rank(1, WORLD_SIZE):
        check_refusal(case)


@pytest.mark.xfail(
    raises=AssertionError,
    reason="fully_shard replaces parameters one after the other, so those before the refused one are sharded by then: "
    "the module is left half sharded (pytorch/torchtitan#1180)",
)
def test_a_module_refused_halfway_is_as_it_was() -> None:
    """A module whose last parameter is refused keeps the parameters before it whole."""
    with playing_rank(1, WORLD_SIZE):
        module = transposed_last()
        before = {name: type(p) for name, p in module.named_parameters()}
        with pytest.raises(NotImplementedError, match="non-contiguous"):
            fully_shard(module, mesh=mesh())
        assert {name: type(p) for name, p in module.named_parameters()} == before


@pytest.mark.xfail(
    raises=AssertionError,
    reason="fully_shard marks the module as sharded before it looks at the parameters, so a second call says that it "
    "was applied already (the kind of pytorch/torchtitan#1180)",
)
def test_a_refused_module_can_be_corrected_and_sharded() -> None:
    """Once the refused parameter is corrected, the same module can be sharded."""
    with playing_rank(1, WORLD_SIZE):
        module = transposed_first()
        with pytest.raises(NotImplementedError, match="non-contiguous"):
            fully_shard(module, mesh=mesh())
        module.weight = nn.Parameter(module.get_parameter("weight").detach().contiguous())
        fully_shard(module, mesh=mesh())
