"""A channel gives what has arrived whole, and never waits for the rest of a message."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fixtures.ranks.channel import HEADER, MAX_MESSAGE_BYTES, Channel

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(20)]

Ends = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Pytest's end as a channel, and a rank's as the bare socket, so that anything can be sent."""
    ours, theirs = socket.socketpair()
    yield Channel(ours), theirs
    ours.close()
    theirs.close()


def test_half_a_message_is_not_waited_for(ends: Ends) -> None:
    """Of a message whose end is missing nothing comes, and nothing blocks; it comes when it is whole."""
    channel, theirs = ends
    theirs.sendall(HEADER.pack(3) + b"one" + HEADER.pack(5) + b"se")
    assert list(channel.arrived()) == [b"one"]
    assert list(channel.arrived()) == []
    theirs.sendall(b"ven" + HEADER.pack(0))
    assert list(channel.arrived()) == [b"seven", b""]


def test_what_came_before_the_end_counts(ends: Ends) -> None:
    """A rank's last words are read, and then it is known to be gone."""
    channel, theirs = ends
    theirs.sendall(HEADER.pack(4) + b"last" + HEADER.pack(9) + b"never")
    theirs.close()
    messages = channel.arrived()
    assert next(messages) == b"last"
    with pytest.raises(EOFError):
        next(messages)


def test_length_beyond_reason_ends_the_channel(ends: Ends) -> None:
    """Bytes that are no message of ours are not taken for the length of one, and no memory is set aside for it."""
    channel, theirs = ends
    theirs.sendall(HEADER.pack(MAX_MESSAGE_BYTES + 1))
    with pytest.raises(ConnectionError, match=f"{MAX_MESSAGE_BYTES + 1} bytes"):
        list(channel.arrived())


def test_end_that_takes_nothing_is_given_up(ends: Ends) -> None:
    """Sending to a rank that is stopped ends after the time that it was given."""
    channel, _ = ends
    with pytest.raises(TimeoutError):
        channel.send(bytes(8 * 1024**2), timeout_s=0.05)


def test_both_ways(ends: Ends) -> None:
    """What one end sends the other receives, however long."""
    channel, theirs = ends
    channel.send(b"job", timeout_s=1)
    assert Channel(theirs).receive() == b"job"
