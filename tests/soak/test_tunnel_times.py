"""The connection between two relays: who may connect, what is bounded, and how it comes back."""

import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servonode.bus.curve import Authenticator
from servonode.bus.keys import ROLES, KeyStore, TrustedKey
from servonode.bus.tunnel import Tunnel
from tests.helpers.ports import free_port

SOON_S = 6.0


class End:
    """One end of a tunnel, and what came there."""

    def __init__(self, tunnel: Tunnel) -> None:
        self.tunnel = tunnel
        self.came: list[tuple[bytes, str, list[bytes]]] = []

    def work(self, wait_s: float = 0.0) -> None:
        """One turn, after a sleep on its descriptors as a relay has it."""
        wake_ns = self.tunnel.look(time.monotonic_ns())
        if not self.tunnel.waits() and not wake_ns:
            select.select(self.tunnel.fds, (), (), wait_s)
        self.tunnel.receive(self._take)

    def _take(self, peer: bytes, key: TrustedKey | None, frames: list[bytes]) -> None:
        self.came.append((peer, key.name if key else "", frames))


class Ends:
    """Both ends, with keys; the desk's is not trusted yet."""

    def __init__(self, folder: Path) -> None:
        self.robot_keys, self.desk_keys = KeyStore(folder / "robot"), KeyStore(folder / "desk")
        self.desk_key = self.desk_keys.new("desk")
        self.desk_keys.trust(self.robot_keys.new("robot"), ["plant"])
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.robot, self.desk = self.listening(), self.connecting()

    def listening(self) -> End:
        keys = Authenticator(self.robot_keys)
        return End(Tunnel(self.address, True, keys, keys.server(*ROLES)))

    def connecting(self) -> End:
        keys = Authenticator(self.desk_keys)
        return End(Tunnel(self.address, False, keys, keys.client("robot", "plant"), "robot"))

    def trust(self, *roles: str) -> None:
        self.robot_keys.trust(self.desk_key, roles)

    def until(self, holds: Callable[[], object], said: bytes = b"", within_s: float = SOON_S) -> bool:
        """Whether it holds in time; the desk says this meanwhile."""
        limit = time.monotonic() + within_s
        while not holds() and time.monotonic() < limit:
            if said:
                self.desk.tunnel.send(b"", said)
            self.robot.work()
            self.desk.work(0.005)
        return bool(holds())

    def close(self) -> None:
        self.robot.tunnel.close()
        self.desk.tunnel.close()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = Ends(tmp_path)
    yield made
    made.close()


def test_a_send_to_whoever_does_not_read_does_not_block(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    begin = time.monotonic()
    for _ in range(3000):
        ends.desk.tunnel.send(b"", b"x" * 10_000)
    assert time.monotonic() - begin < 2.0
    assert ends.desk.tunnel.counts["dropped"] > 1000


def test_a_wake_up_is_never_lost(ends: Ends) -> None:
    """A descriptor of libzmq tells of an arrival once, and a send may use that up: no answer waits for a pause."""
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    peer, robot, desk = ends.robot.came[0][0], ends.robot, ends.desk
    slow = 0
    for number in range(300):
        robot.came.clear()
        desk.came.clear()
        desk.tunnel.send(b"", b"%d" % number)
        while not robot.came:
            begin = time.monotonic()
            robot.work(0.5)
            slow += time.monotonic() - begin > 0.4
        robot.tunnel.send(peer, b"a")
        robot.tunnel.send(peer, b"b")
        while len(desk.came) < 2:
            begin = time.monotonic()
            desk.work(0.5)
            desk.tunnel.send(b"", b"more") if number % 3 == 0 else None
            slow += time.monotonic() - begin > 0.4
    assert slow == 0
