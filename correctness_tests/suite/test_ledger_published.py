"""Property: from psi, N and the bandwidth table the ledger computes every figure of the write-up that is arithmetic."""

from __future__ import annotations

import math

import pytest

from fixtures import ledger
from fixtures.accounts import Account
from fixtures.bandwidth import BandwidthTable
from fixtures.errors import UsageError
from fixtures.measurements import CollectiveTally
from fixtures.models import LARGE, GPTConfig

pytestmark = pytest.mark.cpu

ACCOUNTS = {account.name: account for account in ledger.published_accounts()}


def gpt2_psi(config: GPTConfig) -> int:
    """Psi in closed form: 12 C^2 + 13 C a block, the embeddings of tokens and positions, and the last norm."""
    c = config.width
    return config.layers * (12 * c * c + 13 * c) + (config.vocab + config.context) * c + 2 * c


def off_percent(account: Account) -> int:
    """How far arithmetic and measurement lie apart as the write-up counts it: a share of the larger of the two."""
    assert account.published is not None
    low, high = sorted((account.ledger, account.published))
    return round(100 * (1 - low / high))


def test_psi_of_gpt2_large() -> None:
    """The shapes of GPT-2 Large add up to the published parameter count."""
    assert gpt2_psi(LARGE) == ledger.GPT2_LARGE_PSI == 774_090_240


@pytest.mark.parametrize(
    ("name", "paper"),
    [
        ("resident, ddp", "11.5"),
        ("resident, fsdp2", "1.08"),
        ("exposed communication, ddp", "304"),
        ("step saved by no reshard", "71"),
        ("peak paid for no reshard", "1.44"),
    ],
)
def test_paper_figures(name: str, paper: str) -> None:
    """Each figure of the write-up that is arithmetic, to its last digit."""
    digits = len(paper.partition(".")[2])
    assert f"{ACCOUNTS[name].ledger:.{digits}f}" == paper


@pytest.mark.parametrize(
    ("name", "percent"),
    [("exposed communication, ddp", 6), ("step saved by no reshard", 9), ("peak paid for no reshard", 8)],
)
def test_published_differences(name: str, percent: int) -> None:
    """Arithmetic and measurement lie as far apart as the write-up says."""
    assert off_percent(ACCOUNTS[name]) == percent


def test_seconds_add_up() -> None:
    """Collectives one after the other: the bytes of each over the bandwidth of its kind."""
    tallies = [
        CollectiveTally(kind="all-gather", dtype="bfloat16", count=2, bytes=21_800_000),
        CollectiveTally(kind="all-reduce", dtype="float32", count=1, bytes=10_200_000),
    ]
    assert math.isclose(ledger.collective_ms(tallies), 2.0)


def test_a_kind_without_bandwidth_is_named() -> None:
    """A table without the kind is an error, not a guess."""
    tally = CollectiveTally(kind="all-gather", dtype="bfloat16", count=1, bytes=1)
    with pytest.raises(UsageError, match="has no all-gather"):
        ledger.collective_ms([tally], BandwidthTable(source="nobody", world_size=2, rows=[]))
