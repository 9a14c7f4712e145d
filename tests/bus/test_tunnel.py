"""The connection between two relays: who may connect, what is bounded, and how it comes back."""

import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from servonode.bus.curve import Authenticator
from servonode.bus.keys import ROLES, KeyStore, TrustedKey
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.run_folder import BusError
from servonode.bus.tunnel import QUEUE, Tunnel
from tests.helpers.events import LONG_S, soon
from tests.helpers.ports import free_port


class End:
    """One end of a tunnel, and what came there."""

    def __init__(self, tunnel: Tunnel) -> None:
        self.tunnel = tunnel
        self.came: list[tuple[bytes, str, list[bytes]]] = []

    def work(self, wait_s: float = 0.0) -> None:
        """One turn, after a sleep on its descriptors as a relay has it."""
        wake_ns = self.tunnel.look(soon(0))
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

    def until(self, holds: Callable[[], object], said: bytes = b"", within_s: float = LONG_S) -> bool:
        """Whether it holds in time; the desk says this meanwhile."""
        limit = soon(within_s)
        while not holds() and soon(0) < limit:
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


def test_messages_come_with_the_key_and_go_back_to_their_sender(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    peer, name, frames = ends.robot.came[0]
    assert (name, frames) == ("desk", [b"one"])
    ends.robot.tunnel.send(peer, b"a", b"", b"c")
    assert ends.until(lambda: ends.desk.came)
    assert ends.desk.came == [(b"", "robot", [b"a", b"", b"c"])]


def test_a_key_that_is_trusted_later_connects_then(ends: Ends) -> None:
    """libzmq alone does not try again where its key was refused."""
    assert ends.until(lambda: ends.desk.tunnel.key_refused, b"early")
    assert ends.robot.tunnel.counts["unknown_key"] >= 1
    assert ends.desk.tunnel.own_key == "desk"
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"now")
    assert not ends.desk.tunnel.key_refused


def test_a_key_that_is_revoked_is_heard_no_more_and_roles_are_those_of_now(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    ends.robot_keys.revoke("desk")
    assert ends.until(lambda: ends.robot.tunnel.counts["revoked_key"], b"two")
    ends.robot.came.clear()
    assert not ends.until(lambda: ends.robot.came, b"three", within_s=0.2)
    ends.trust("operate")
    assert ends.until(lambda: ends.robot.came, b"four")


def test_a_server_whose_key_is_revoked_or_replaced_is_heard_no_more(ends: Ends, tmp_path: Path) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    peer = ends.robot.came[0][0]
    ends.desk_keys.revoke("robot")
    ends.desk_keys.trust(KeyStore(tmp_path / "other").new("robot"), ["plant"])
    for _ in range(20):
        ends.robot.tunnel.send(peer, b"late")
    assert ends.until(lambda: ends.desk.tunnel.counts["revoked_key"])
    assert ends.desk.came == []


@pytest.mark.parametrize("side", ["robot", "desk"])
def test_either_end_may_begin_anew(ends: Ends, side: str) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    end: End = getattr(ends, side)
    end.tunnel.close()
    setattr(ends, side, ends.listening() if side == "robot" else ends.connecting())
    assert ends.until(lambda: (*ends.robot.came[-1:],)[0][2] == [b"two"] if ends.robot.came else False, b"two")


@pytest.mark.parametrize("sender", ["robot", "desk"])
def test_a_frame_that_is_too_long_ends_a_connection_that_comes_back(ends: Ends, sender: str) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    peer = ends.robot.came[0][0]
    end: End = getattr(ends, sender)
    end.tunnel.send(peer if sender == "robot" else b"", b"x" * (MAX_PAYLOAD + 1))
    assert not ends.until(lambda: False, within_s=0.3)
    ends.robot.came.clear()
    assert ends.until(lambda: ends.robot.came, b"again")
    assert all(len(frames[0]) <= MAX_PAYLOAD for _, _, frames in (*ends.robot.came, *ends.desk.came))


def test_messages_of_too_many_frames_are_cut_and_the_next_ones_come(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    ends.desk.tunnel.send(b"", *([b"frame"] * 500))
    ends.desk.tunnel.send(b"", b"last")
    assert ends.until(lambda: ends.robot.came[-1][2] == [b"last"])
    assert max(len(frames) for _, _, frames in ends.robot.came) == 3


def test_nothing_waits_for_a_connection(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    try:
        ends.robot.tunnel.close()
        for number in range(3 * QUEUE):
            ends.desk.tunnel.send(b"", b"%d" % number)
        assert ends.desk.tunnel.counts["dropped"] == 3 * QUEUE
        ends.robot = ends.listening()
        ends.trust("observe")
        assert ends.until(lambda: ends.robot.came, b"fresh")
        assert {frames[0] for _, _, frames in ends.robot.came} == {b"fresh"}
    finally:
        ends.close()


def test_what_goes_to_whoever_does_not_read_is_dropped(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, b"one")
    for _ in range(3000):
        ends.desk.tunnel.send(b"", b"x" * 10_000)
    assert ends.desk.tunnel.counts["dropped"] > 1000


def test_without_keys_there_is_none(tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    robot, desk = End(Tunnel(address, True)), End(Tunnel(address, False))
    try:
        limit = soon()
        while not robot.came and soon(0) < limit:
            desk.tunnel.send(b"", b"one")
            robot.work(0.01)
            desk.work()
        assert [each[1:] for each in robot.came][:1] == [("", [b"one"])]
        assert desk.tunnel.own_key == ""
    finally:
        robot.tunnel.close()
        desk.tunnel.close()


def test_an_address_that_is_in_use_or_not_known_is_refused(ends: Ends) -> None:
    with pytest.raises(BusError, match="cannot be bound"):
        Tunnel(ends.address, True)
    for listens in (True, False):
        with pytest.raises(BusError, match="no computer is known here as"):
            Tunnel("tcp://no.such.computer.invalid:7400", listens)


def test_no_context_is_left_of_what_was_closed(ends: Ends) -> None:
    ends.close()
    ends.close()
    with pytest.raises(zmq.ZMQError):
        ends.desk.tunnel._socket.send(b"")
