"""CURVE with ZAP over real sockets: who may connect, who may ask what; all else is refused and counted."""

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from servonode.bus.curve import Authenticator
from servonode.bus.keys import KeyFileError, KeyStore
from servonode.bus.zmq_io import Secure, open_socket
from tests.helpers.runs import START_S

REFUSED_S = 0.4  # s in which nothing may come


class Desk:
    """A ROUTER that keys of the role `operate` may connect to, its authenticator served in this thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = KeyStore(folder / "desk")
        self.public = self.store.new("desk")
        self.contexts: list[zmq.Context] = []
        self.sockets: list[zmq.Socket] = []
        self.auth = Authenticator(self.store)
        self.router, self.address = self.bound(self.auth.server("operate"))

    def context(self) -> zmq.Context:
        self.contexts.append(zmq.Context(io_threads=1))
        return self.contexts[-1]

    def bound(self, secure: Secure, anew: bool = False) -> tuple[zmq.Socket, str]:
        """A ROUTER at a free port; anew: in another context, for another authenticator."""
        context = self.context() if anew or not self.contexts else self.contexts[0]
        opened = open_socket(context, zmq.ROUTER)
        self.sockets.append(opened)
        secure(opened)
        port = opened.bind_to_random_port("tcp://127.0.0.1")
        return opened, f"tcp://127.0.0.1:{port}"

    def pair(self, name: str, *roles: str) -> KeyStore:
        """The store of another computer with one pair, trusted here for these roles, that trusts this one."""
        other = KeyStore(self.folder / name)
        public = other.new(name)
        if roles:
            self.store.trust(public, roles)
        other.trust(self.public, ["controller"])
        return other

    def client(self, secure: Secure | None, address: str = "") -> zmq.Socket:
        opened = open_socket(self.context(), zmq.DEALER)
        self.sockets.append(opened)
        if secure is not None:
            secure(opened)
        opened.connect(address or self.address)
        return opened

    def of(self, store: KeyStore) -> zmq.Socket:
        return self.client(Authenticator(store).client("desk", "controller"))

    def request(self, client: zmq.Socket, within: float = START_S) -> zmq.Frame | None:
        """What arrives of a request of this client, its last frame; None: nothing does."""
        client.send(b"ask")
        until = time.monotonic() + within
        while time.monotonic() < until:
            self.auth.look(time.monotonic_ns())
            if self.router.poll(0):
                return self.router.recv_multipart(copy=False)[-1]
            select.select([self.auth.fd], (), (), 0.002)
        return None

    def refused(self, client: zmq.Socket) -> bool:
        return self.request(client, REFUSED_S) is None

    def close(self) -> None:
        self.auth.close()
        for opened in self.sockets:
            opened.close()
        for context in self.contexts:
            context.term()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


def test_a_trusted_key_connects_and_its_requests_bear_its_name(desk: Desk) -> None:
    frame = desk.request(desk.of(desk.pair("lab", "operate")))
    assert frame is not None
    key = desk.auth.key_of(frame["User-Id"])
    assert key is not None
    assert key.name == "lab"
    assert desk.auth.allowed(frame["User-Id"], "arm")
    assert desk.auth.allowed(frame["User-Id"], "estop")
    assert not desk.auth.counts


def test_unknown_keys_wrong_roles_and_no_curve_are_refused_and_counted(desk: Desk) -> None:
    watcher = desk.pair("watcher", "observe", "plant")
    assert desk.refused(desk.of(desk.pair("stranger")))
    assert desk.refused(desk.of(watcher))
    assert desk.refused(desk.client(None))  # NULL, which libzmq refuses by itself
    assert desk.auth.counts == {"unknown_key": 1, "role_of_key_watcher": 1}
    assert desk.request(desk.of(desk.pair("lab", "operate"))) is not None


def test_a_name_admits_no_other_key_of_that_role(desk: Desk) -> None:
    stores = {name: desk.pair(name, "plant") for name in ("robot", "other")}
    desk.router, desk.address = desk.bound(desk.auth.server("plant", "robot"))
    assert desk.refused(desk.of(stores["other"]))
    assert desk.auth.counts == {"role_of_key_other": 1}
    assert desk.request(desk.of(stores["robot"])) is not None


def test_what_a_key_may_ask_ends_when_it_is_revoked_though_it_is_connected(desk: Desk) -> None:
    watcher = desk.pair("watcher", "operate")
    client = desk.of(watcher)
    frame = desk.request(client)
    assert frame is not None
    desk.store.trust(watcher.folder / "watcher.key", ["observe"])
    assert desk.auth.allowed(frame["User-Id"], "status")
    assert not desk.auth.allowed(frame["User-Id"], "arm")
    assert desk.auth.allowed(frame["User-Id"], "estop")
    assert desk.auth.counts == {"verb_of_key_watcher": 1}
    desk.store.revoke("watcher")
    frame = desk.request(client)  # its connection is still there
    assert frame is not None
    assert not desk.auth.allowed(frame["User-Id"], "estop")
    assert desk.refused(desk.of(watcher))
    assert desk.auth.counts == {"verb_of_key_watcher": 1, "revoked_key_watcher": 2}


def test_a_server_that_is_not_the_expected_one_gets_nothing(desk: Desk) -> None:
    lab = desk.pair("lab", "operate")
    false = KeyStore(desk.folder / "false")
    false.new("desk")
    false.trust(lab.folder / "lab.key", ["operate"])
    desk.auth.close()
    desk.auth = Authenticator(false)
    desk.router, desk.address = desk.bound(desk.auth.server("operate"), anew=True)
    assert desk.refused(desk.of(lab))
    lab.revoke("desk")
    with pytest.raises(KeyFileError, match=r"key 'desk' is not trusted; servonode keys trust desk.key --role plant"):
        Authenticator(lab).client("desk", "plant")
    lab.trust(desk.public, ["controller"])
    with pytest.raises(KeyFileError, match="key 'desk' is not trusted as plant"):
        Authenticator(lab).client("desk", "plant")


def test_without_someone_who_answers_for_keys_nobody_connects(desk: Desk) -> None:
    client = desk.of(desk.pair("lab", "operate"))
    desk.auth.close()
    desk.router, address = desk.bound(lambda opened: _server_alone(opened, desk.store), anew=True)
    client.connect(address)
    client.send(b"ask")
    assert not desk.router.poll(int(REFUSED_S * 1e3))


def _server_alone(opened: zmq.Socket, store: KeyStore) -> None:
    """Secure a socket as an Authenticator does, which is then no longer there."""
    auth = Authenticator(store)
    auth.server("operate")(opened)
    auth.close()


def test_a_flood_of_strangers_leaves_the_round_trip_of_a_good_link_as_it_is(desk: Desk) -> None:
    client = desk.of(desk.pair("lab", "operate"))
    assert desk.request(client) is not None
    quiet = _round_trips(desk, client, lambda _: None)
    strangers = desk.pair("stranger")
    secure = Authenticator(strangers).client("desk", "controller")
    context = desk.context()
    place = ("127.0.0.1", int(desk.address.rpartition(":")[2]))
    held: list[socket.socket] = []
    known: list[zmq.Socket] = []

    def strange(number: int) -> None:
        """One more bad handshake: random bytes, or a key that nobody knows."""
        if number % 2:
            opened = open_socket(context, zmq.DEALER)
            secure(opened)
            opened.connect(desk.address)
            known.append(opened)
            if len(known) > 20:  # each tries again and again
                known.pop(0).close()
            return
        raw = socket.create_connection(place)
        raw.setblocking(False)
        raw.send(os.urandom(500))
        held.append(raw)
        if len(held) > 50:
            held.pop(0).close()

    flooded = _round_trips(desk, client, strange)
    for each in (*held, *known):
        each.close()
    assert desk.auth.counts["unknown_key"] > 50
    assert flooded < max(20 * quiet, 0.02), (quiet, flooded)


def _round_trips(desk: Desk, client: zmq.Socket, beside: Callable[[int], None]) -> float:
    """The median time [s] of a request and its answer, while `beside` is called between them."""
    took = []
    for number in range(400):
        beside(number)
        begin = time.monotonic()
        client.send(b"ask")
        until = begin + 2.0
        while not desk.router.poll(0):
            assert time.monotonic() < until, number
            desk.auth.look(time.monotonic_ns())
        desk.router.send_multipart(desk.router.recv_multipart())
        assert client.poll(2000)
        client.recv()
        took.append(time.monotonic() - begin)
    return sorted(took)[len(took) // 2]
