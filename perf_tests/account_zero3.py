"""Account 4, measured here: what a rank of DeepSpeed's stage 3 holds between two steps, beside FSDP2.

Without options: a small GPT-2 on two gloo ranks. With ``--large``: GPT-2 Large itself on real tensors, one process on
the CPU that plays rank 0 of 8; it takes minutes and 7 GB. Needs the extra zero3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fixtures.accounts import Account
from fixtures.errors import UsageError
from fixtures.extras import ZERO3
from fixtures.ledger.bookkeeping import bookkeeping_accounts
from fixtures.models import LARGE
from fixtures.platforms import Platform
from fixtures.ranks.pool import RankPool
from fixtures.workloads import Workload, gpt2
from perf_tests.budgets import Reading, read_arm

ARMS = ("fsdp2", "zero3", "zero3-defaults")
DEADLINE_S = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="perf_tests/account_zero3.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--large", action="store_true", help="GPT-2 Large, rank 0 of 8 (minutes, 7 GB)")
    options = parser.parse_args(arguments)
    try:
        if not ZERO3.installed:
            raise UsageError(f"{ZERO3.missing}.")
        workload = "perf_tests.account_zero3:large_in_brief" if options.large else "gpt2-rehearsal"
        platform = Platform.solo(8) if options.large else Platform.cpu(2)
        readings = {arm: measure(arm, workload, platform) for arm in ARMS}
    except UsageError as error:
        print(f"account_zero3: {error}", file=sys.stderr)
        return 2
    measured = {arm: reading.resident_bytes - reading.held_bytes for arm, reading in readings.items()}
    accounts = bookkeeping_accounts(readings["fsdp2"].units, platform.world_size, measured)
    print(f"account 4, {'GPT-2 Large' if options.large else workload} in mixed precision, rank 0 of {platform.key}")
    print(*table(accounts), sep="\n")
    return int(any(account.difference for account in accounts))


def measure(arm: str, workload: str, platform: Platform) -> Reading:
    """Rank 0's reading of one launch."""
    with RankPool(platform, deadline_s=DEADLINE_S) as pool:
        reading: Reading = pool.run(read_arm, arm, workload, "mixed")[0]
        return reading


def large_in_brief() -> Workload:
    """GPT-2 Large on eight tokens: the length of a batch is no part of what is held between steps."""

    def batch(generator: torch.Generator) -> Tensor:
        return torch.randint(LARGE.vocab, (1, 9), generator=generator)

    return replace(gpt2("gpt2-large-in-brief", LARGE, micro_batch=1), batch=batch, tokens_per_batch=8)


def table(accounts: Sequence[Account]) -> list[str]:
    """One line an account, the notes below."""
    lines = [f"{'':54}{'published':>10}{'ledger':>10}{'measured':>10}  difference"]
    for account in accounts:
        figures = [_figure(value) for value in (account.published, account.ledger, account.measured)]
        difference = "" if account.difference is None else f"{account.difference:+.4%}"
        unit = "" if account.unit == "ratio" else f", {account.unit}"
        lines.append(f"{account.name + unit:54}" + "".join(f"{f:>10}" for f in figures) + f"  {difference}")
    return lines + [f"{account.name}: {account.note}" for account in accounts if account.note]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
