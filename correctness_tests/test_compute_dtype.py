"""Property: every arm multiplies its matrices in the dtype that its precision says, DDP under autocast as FSDP2."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fixtures.ledger import Precision
from fixtures.measurements import Settings
from fixtures.platforms import playing_rank
from fixtures.strategies import STRATEGIES
from fixtures.torch_internals import DispatchMode, has_wrapper
from fixtures.training import Arm, Trainer

pytestmark = pytest.mark.cpu

PRODUCTS = ("mm", "addmm", "bmm")
DTYPES: dict[Precision, torch.dtype] = {"mixed": torch.bfloat16, "fp32": torch.float32}


class Products(DispatchMode):
    """Notes the dtype of every matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if has_wrapper(types):
            return NotImplemented
        out = func(*args, **(kwargs or {}))
        if func.__name__.split(".")[0] in PRODUCTS:
            self.dtypes.add(out.dtype)
        return out


def product_dtypes(strategy: str, precision: Precision) -> set[torch.dtype]:
    """The dtypes of all products of one training step of the MLP on rank 0 of 4."""
    with playing_rank(0, 4) as platform:
        trainer = Trainer(Arm("mlp", strategy, Settings(precision=precision)), platform)
        with Products() as products:
            trainer.step()
    return products.dtypes


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_products_are_in_the_dtype_of_the_precision(strategy: str, precision: Precision) -> None:
    """Forward and backward multiply in bfloat16 where precision is mixed, in float32 where it is fp32."""
    found, known = product_dtypes(strategy, precision), DTYPES[precision]
    assert found == {known}, (
        f"{strategy} of mlp in {precision}, rank 0 of cpu-solo-4: products are in {found}, expected {known}. "
        "An arm that computes in another dtype is another program, and no ratio with it means anything: look at "
        "autocast and the mixed-precision policy in fixtures/strategies.py."
    )
