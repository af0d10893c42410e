"""A case has one way of being written, and what is written otherwise is named."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import ValidationError

from fixtures.gate.cases import Case, unit_for
from fixtures.measurements import GIB

pytestmark = pytest.mark.cpu


def case(metric: str, precision: Literal["mixed", "fp32"] = "mixed") -> Case:
    """fsdp2 over ddp."""
    return Case(workload="gpt2", numerator="fsdp2", denominator="ddp", metric=metric, precision=precision)


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (case("peak"), "gpt2/fsdp2:ddp/peak"),
        (case("step", "fp32"), "gpt2/fsdp2:ddp/step/fp32"),
        (case("peak").model_copy(update={"workload": "my/own/net"}), "my/own/net/fsdp2:ddp/peak"),
    ],
)
def test_a_case_is_written_and_read_in_one_way(made: Case, written: str) -> None:
    """Pure fp32 is told at the end; the usual precision is not."""
    assert (made.id, Case.parse(written)) == (written, made)


@pytest.mark.parametrize("written", ["", "gpt2/peak", "gpt2/fsdp2/peak", "gpt2/a:b:c/peak", "x" * 200])
def test_what_is_no_case_is_named(written: str) -> None:
    """With an example of one, and cut where it would fill the screen."""
    with pytest.raises(ValueError, match="is no case") as caught:
        Case.parse(written)
    assert str(caught.value) == f"{written[:80]!r} is no case: write it like 'gpt2-large/fsdp2:ddp/resident'"


def test_an_unknown_metric_is_named() -> None:
    """With those that are known."""
    with pytest.raises(ValidationError) as caught:
        Case.parse(f"gpt2/fsdp2:ddp/{'speed' * 20}")
    words = f"no metric is called '{'speed' * 12}': known are resident, peak, reserved, step"
    assert caught.value.errors()[0]["msg"] == f"Value error, {words}"


@pytest.mark.parametrize(
    ("metric", "amount", "unit", "time"),
    [("step", 5e9, "ms", True), ("peak", GIB, "GiB", False), ("peak", GIB - 1, "MiB", False)],
)
def test_a_unit_reads_well(metric: str, amount: float, unit: str, time: bool) -> None:
    """A time is in ms whatever it is; bytes are in GiB from one on."""
    assert (unit_for(metric, amount), case(metric).is_time) == (unit, time)
