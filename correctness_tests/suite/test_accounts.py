"""An account says how far a measured figure is from its ledger entry, and when that is a failure."""

from __future__ import annotations

import pytest

from fixtures.accounts import Account

pytestmark = pytest.mark.cpu


def account(measured: float | None, ledger: float = 100.0, **others: float) -> Account:
    """Of GiB."""
    return Account(name="resident", unit="GiB", ledger=ledger, measured=measured, **others)  # type: ignore[arg-type]


def test_difference_is_the_measured_share_beyond_the_ledger() -> None:
    """+5% of 100 is 105; without a measurement, or a ledger entry of zero, there is none."""
    assert account(105.0).difference == pytest.approx(0.05)
    assert (account(None).difference, account(5.0, ledger=0.0).difference) == (None, None)


def test_published_difference_is_against_what_was_published() -> None:
    """The ledger has no part in it; unpublished, or published as zero, there is none."""
    assert account(90.0, published=120.0).published_difference == pytest.approx(-0.25)
    assert account(90.0).published_difference is None
    assert account(90.0, published=0.0).published_difference is None
    assert account(None, published=120.0).published_difference is None


def test_accepted_difference_is_against_the_ledger_of_then() -> None:
    """Where the ledger's entry was another when it was accepted, that one counts."""
    assert account(90.0, accepted=110.0).accepted_difference == pytest.approx(0.1)
    assert account(90.0, accepted=110.0, accepted_ledger=220.0).accepted_difference == pytest.approx(-0.5)
    assert account(90.0).accepted_difference is None
    assert account(90.0, accepted=110.0, accepted_ledger=0.0).accepted_difference is None


@pytest.mark.parametrize(
    ("measured", "off"), [(112.5, True), (87.5, True), (109.0, False), (91.0, False), (None, False)]
)
def test_more_than_a_tenth_is_off(measured: float | None, off: bool) -> None:
    """Either way; what was not measured is not."""
    assert account(measured).off is off


@pytest.mark.parametrize(
    ("measured", "accepted", "fails"),
    [(125.0, 105.0, True), (125.0, 90.0, True), (125.0, 120.0, False), (125.0, None, False), (105.0, 105.0, False)],
)
def test_off_fails_where_it_was_not_off_before(measured: float, accepted: float | None, fails: bool) -> None:
    """What was accepted as off stays a report; what was never accepted is one too."""
    others = {} if accepted is None else {"accepted": accepted}
    assert account(measured, **others).fails is fails


def test_unexplained_has_its_unit() -> None:
    """Measured less ledger, signed; a ratio has no unit; nothing measured leaves nothing unexplained."""
    assert (account(98.5).unexplained, account(None).unexplained) == ("-1.5 GiB", "+0 GiB")
    assert Account(name="knob", unit="ratio", ledger=1.0, measured=1.25).unexplained == "+0.25"
