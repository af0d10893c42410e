"""Sessions work side by side, in strange surroundings and without a network, and open no socket beyond loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from correctness_tests.suite.sessions.sockets import SocketWatch, is_loopback
from correctness_tests.suite.sessions.surroundings import (
    ALL_AT_ONCE,
    Running,
    Surroundings,
    can_be_apart,
    copy_checkout,
)

pytestmark = pytest.mark.cpu


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Running, str]]:
    """Two sessions at once, run to their ends: one in a plain folder, one in all strange surroundings at once."""
    folder = tmp_path_factory.mktemp("sessions")
    asked = (Surroundings("plain"), ALL_AT_ONCE)
    running = {str(s): Running(s, folder / str(number)) for number, s in enumerate(asked)}
    return {name: (session, session.finish()) for name, session in running.items()}


@pytest.mark.parametrize("name", ["plain", str(ALL_AT_ONCE)])
def test_session_passes(side_by_side: dict[str, tuple[Running, str]], name: str) -> None:
    """Started from another folder beside another session, from a path with spaces and letters beyond ASCII, with a home
    that does not exist, in the locale C, without a network, from a checkout that can't be written to: all tests pass,
    and no process has a socket beyond loopback at any moment."""
    session, output = side_by_side[name]
    assert session.wrong(output) == [], output
    assert len(session.watch.processes) >= 4  # pytest, the fork server, two ranks


def test_checkout_is_left_as_it_was(side_by_side: dict[str, tuple[Running, str]], tmp_path: Path) -> None:
    """A session writes nothing into a checkout but caches: Python's, pytest's and hypothesis's own."""
    session, _ = side_by_side["plain"]
    copy_checkout(fresh := tmp_path / "fresh")
    left = [path.relative_to(session.checkout) for path in session.checkout.rglob("*")]
    caches = {"__pycache__", ".pytest_cache", ".hypothesis"}
    assert [path for path in left if not (fresh / path).exists() and caches.isdisjoint(path.parts)] == []


def test_watch_sees_a_listener_that_is_open_to_the_network() -> None:
    """The control: a grandchild that listens on every interface is named with its address and command; one that listens
    on loopback is seen and is no fault."""
    listen = (
        "import socket, sys; s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ':' in sys.argv[1] "
        "else socket.AF_INET); print('up', flush=True); sys.stdin.read()"
    )
    for address, beyond in (("0.0.0.0", 1), ("::", 1), ("127.0.0.1", 0)):
        nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
        command = [sys.executable, "-c", nested, listen, address]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"up\n"
            watch = SocketWatch(parent.pid)
            watch.look()
            parent.communicate()
        assert len(watch.seen) == 1
        assert len(watch.beyond) == beyond
        assert all(found.startswith(f"{address} port ") and "create_server" in found for found in watch.beyond)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *[("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("::ffff:127.0.0.1", True), ("0.0.0.0", False)],
        *[("::", False), ("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("fe80::1", False)],
    ],
)
def test_only_loopback_is_loopback(address: str, expected: bool) -> None:
    """Loopback in every way of writing it, and nothing else: the wildcard is open to everybody."""
    assert is_loopback(address) is expected


def test_apart_is_apart(tmp_path: Path) -> None:
    """The control: in namespaces of its own a process can write nothing in the folder and reach nobody."""
    if not can_be_apart():
        pytest.skip("this machine allows no namespaces of our own")
    from correctness_tests.suite.sessions import apart

    program = (
        "import pathlib, socket\n"
        f"try: pathlib.Path({str(tmp_path)!r}, 'x').touch()\nexcept OSError as e: print(e.strerror)\n"
        "try: socket.create_connection(('192.0.2.1', 9), 1)\nexcept OSError as e: print(e.strerror)\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(s.getsockname(), 1)\nprint('loopback works')"
    )
    command = [sys.executable, apart.__file__, str(tmp_path), sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["Read-only file system", "Network is unreachable", "loopback works"]
