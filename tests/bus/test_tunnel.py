"""The connection between two relays: who may connect, what is bounded, and how it comes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from servonode.bus.envelope import LARGEST_ENVELOPE, Busy, Topic, encode_envelope
from servonode.bus.keys import KeyStore
from servonode.bus.run_folder import BusError
from servonode.bus.tunnel import QUEUE, Tunnel
from tests.helpers.events import soon
from tests.helpers.ports import free_port
from tests.helpers.tunnels import End, Ends


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = Ends(tmp_path)
    yield made
    made.close()


def test_messages_come_with_the_key_and_go_back_to_their_sender(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    peer, name, envelope = ends.robot.came[0]
    assert (name, envelope) == ("desk", Busy("one"))
    sent = Topic("plant", "state", b"\x00\xff")
    ends.robot.tunnel.send(peer, sent)
    assert ends.until(lambda: ends.desk.came)
    assert ends.desk.came == [(b"", "robot", sent)]


def test_a_key_that_is_trusted_later_connects_then(ends: Ends) -> None:
    """libzmq alone does not try again where its key was refused."""
    assert ends.until(lambda: ends.desk.tunnel.key_refused, "early")
    assert ends.robot.tunnel.counts["unknown_key"] >= 1
    assert ends.desk.tunnel.own_key == "desk"
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "now")
    assert not ends.desk.tunnel.key_refused


def test_a_key_that_is_revoked_is_heard_no_more_and_roles_are_those_of_now(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    ends.robot_keys.revoke("desk")
    assert ends.until(lambda: ends.robot.tunnel.counts["revoked_key"], "two")
    ends.robot.came.clear()
    assert not ends.until(lambda: ends.robot.came, "three", within_s=0.2)
    ends.trust("operate")
    assert ends.until(lambda: ends.robot.came, "four")


def test_a_server_whose_key_is_revoked_or_replaced_is_heard_no_more(ends: Ends, tmp_path: Path) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    peer = ends.robot.came[0][0]
    ends.desk_keys.revoke("robot")
    ends.desk_keys.trust(KeyStore(tmp_path / "other").new("robot"), ["plant"])
    for _ in range(20):
        ends.robot.say("late", peer=peer)
    assert ends.until(lambda: ends.desk.tunnel.counts["revoked_key"])
    assert ends.desk.came == []


@pytest.mark.parametrize("side", ["robot", "desk"])
def test_either_end_may_begin_anew(ends: Ends, side: str) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    end: End = getattr(ends, side)
    end.tunnel.close()
    setattr(ends, side, ends.listening() if side == "robot" else ends.connecting())
    assert ends.until(lambda: ends.robot.texts()[-1:] == ["two"], "two")


@pytest.mark.parametrize("sender", ["robot", "desk"])
def test_a_frame_that_is_too_long_ends_a_connection_that_comes_back(ends: Ends, sender: str) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    peer = ends.robot.came[0][0]
    end: End = getattr(ends, sender)
    too_long = Topic("plant", "state", b"x" * LARGEST_ENVELOPE)
    end.tunnel.send(peer if sender == "robot" else b"", too_long)
    assert not ends.until(lambda: False, within_s=0.3)
    ends.robot.came.clear()
    assert ends.until(lambda: ends.robot.came, "again")
    assert not [each for each in (*ends.robot.came, *ends.desk.came) if each[2] == too_long]


def test_what_is_no_envelope_is_refused_and_the_next_ones_come(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    for frames in ([b"frame"] * 500, [b"", b""], [b"frame"], [encode_envelope(Busy("two"))] * 2):
        ends.desk.tunnel._socket.send_multipart(frames)
    ends.desk.say("last")
    assert ends.until(lambda: ends.robot.texts()[-1] == "last")
    assert set(ends.robot.texts()) == {"one", "last"}
    assert ends.robot.tunnel.counts["refused_frames"] == 4


def test_nothing_waits_for_a_connection(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    try:
        ends.robot.tunnel.close()
        for number in range(3 * QUEUE):
            ends.desk.say(f"{number}")
        assert ends.desk.tunnel.counts["dropped"] == 3 * QUEUE
        ends.robot = ends.listening()
        ends.trust("observe")
        assert ends.until(lambda: ends.robot.came, "fresh")
        assert set(ends.robot.texts()) == {"fresh"}
    finally:
        ends.close()


def test_what_goes_to_whoever_does_not_read_is_dropped(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    for _ in range(3000):
        ends.desk.tunnel.send(b"", Topic("plant", "state", b"x" * 10_000))
    assert ends.desk.tunnel.counts["dropped"] > 1000


def test_without_keys_there_is_none(tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    robot, desk = End(Tunnel(address, True)), End(Tunnel(address, False))
    try:
        limit = soon()
        while not robot.came and soon(0) < limit:
            desk.say("one")
            robot.work(0.01)
            desk.work()
        assert robot.came[0][1:] == ("", Busy("one"))
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
