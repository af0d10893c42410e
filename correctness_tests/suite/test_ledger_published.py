"""Property: from psi, N and the bandwidth table the ledger computes every figure of the write-up that is arithmetic."""

from __future__ import annotations

import pytest

from fixtures import ledger
from fixtures.accounts import Account
from fixtures.bandwidth import Bandwidth, BandwidthTable
from fixtures.errors import UsageError
from fixtures.measurements import GIB
from fixtures.models import LARGE, GPTConfig

pytestmark = pytest.mark.cpu


@pytest.fixture
def accounts() -> dict[str, Account]:
    """The write-up's accounts, by name."""
    return {account.name: account for account in ledger.published_accounts()}


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
def test_paper_figures(accounts: dict[str, Account], name: str, paper: str) -> None:
    """Each figure of the write-up that is arithmetic, to its last digit."""
    digits = len(paper.partition(".")[2])
    assert f"{accounts[name].ledger:.{digits}f}" == paper


@pytest.mark.parametrize(
    ("name", "percent"),
    [("exposed communication, ddp", 6), ("step saved by no reshard", 9), ("peak paid for no reshard", 8)],
)
def test_published_differences(accounts: dict[str, Account], name: str, percent: int) -> None:
    """Arithmetic and measurement lie as far apart as the write-up says."""
    assert off_percent(accounts[name]) == percent


@pytest.mark.parametrize(
    ("name", "unit", "published"),
    [
        ("resident, ddp", "GiB", 11.76),
        ("resident, fsdp2", "GiB", 1.27),
        ("exposed communication, ddp", "ms", 477 - 153),
        ("step saved by no reshard", "ms", 64.7),
        ("peak paid for no reshard", "GiB", 1.32),
    ],
)
def test_measured_figures_of_the_write_up(accounts: dict[str, Account], name: str, unit: str, published: float) -> None:
    """Beside each: what was measured, in its unit; what is exposed is the step less the step of one GPU."""
    assert (accounts[name].unit, accounts[name].published) == (unit, published)


def test_another_model_on_another_machine() -> None:
    """2^30 parameters by hand: 16 and 12 / 8 bytes each; 4 GiB reduced at 2 GB/s, 2 GiB gathered at 4 GB/s."""
    table = BandwidthTable(
        source="paper",
        world_size=8,
        rows=[
            Bandwidth(kind="all-reduce", dtype="float32", bytes=1, gb_per_s=2.0),
            Bandwidth(kind="all-gather", dtype="bfloat16", bytes=1, gb_per_s=4.0),
        ],
    )
    assert [account.ledger for account in ledger.published_accounts(GIB, table)] == pytest.approx(
        [16.0, 1.5, 4 * 1024**3 / 2e6, 2 * 1024**3 / 4e6, 2.0], rel=1e-12
    )


def test_a_kind_without_bandwidth_is_named() -> None:
    """A table without the kind is an error, not a guess."""
    with pytest.raises(UsageError, match="has no all-reduce"):
        ledger.published_accounts(table=BandwidthTable(source="nobody", world_size=2, rows=[]))
