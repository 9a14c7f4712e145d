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
from servonode.bus.key_files import KeyFileError
from servonode.bus.keys import KeyStore
from servonode.bus.zmq_io import Secure, open_socket
from tests.helpers.runs import START_S

REFUSED_S = 0.4  # s in which nothing may come


class Desk:
    """A ROUTER that keys of the role `controller` may connect to, its authenticator served in this thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = KeyStore(folder / "desk")
        self.public = self.store.new("desk")
        self.contexts: list[zmq.Context] = []
        self.sockets: list[zmq.Socket] = []
        self.auth = Authenticator(self.store)
        self.router, self.address = self.bound(self.auth.server("controller"))

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


def test_a_trusted_key_connects_and_its_messages_bear_it(desk: Desk) -> None:
    lab = desk.pair("lab", "controller")
    frame = desk.request(desk.of(lab))
    assert frame is not None
    assert frame["User-Id"] == lab.pair().public.decode()
    assert not desk.auth.counts


def test_unknown_keys_wrong_roles_and_no_curve_are_refused_and_counted(desk: Desk) -> None:
    machine = desk.pair("machine", "plant")
    assert desk.refused(desk.of(desk.pair("stranger")))
    assert desk.refused(desk.of(machine))
    assert desk.refused(desk.client(None))  # NULL, which libzmq refuses by itself
    assert desk.auth.counts == {"unknown_key": 1, "role_of_key_machine": 1}
    assert desk.request(desk.of(desk.pair("lab", "controller"))) is not None


def test_a_name_admits_no_other_key_of_that_role(desk: Desk) -> None:
    stores = {name: desk.pair(name, "plant") for name in ("robot", "other")}
    desk.router, desk.address = desk.bound(desk.auth.server("plant", "robot"))
    assert desk.refused(desk.of(stores["other"]))
    assert desk.auth.counts == {"role_of_key_other": 1}
    assert desk.request(desk.of(stores["robot"])) is not None


def test_a_revoked_key_connects_no_more(desk: Desk) -> None:
    lab = desk.pair("lab", "controller")
    assert desk.request(desk.of(lab)) is not None
    desk.store.revoke("lab")
    assert desk.refused(desk.of(lab))
    assert desk.auth.counts == {"revoked_key_lab": 1}


def test_why_a_key_is_no_longer_trusted_is_told_with_its_remedy(desk: Desk) -> None:
    lab = desk.pair("lab", "controller")

    def problem() -> str:
        return desk.auth.problem_of("lab", "controller")

    assert problem() == ""
    desk.store.folder.chmod(0o750)
    assert "has mode 0750, open to others; keys need a folder of yours with mode 0700 (chmod 700)" in problem()
    desk.store.folder.chmod(0o700)
    assert problem() == ""
    file, draft = desk.store.folder / "trusted" / "lab.key", desk.store.folder / "draft"
    draft.write_bytes(b"")
    draft.replace(file)
    assert "trusted/lab.key is damaged (no public key); copy it again" in problem()
    desk.store.revoke("lab")
    assert problem() == "key 'lab' is not trusted; servonode keys trust lab.key --role controller"
    desk.store.trust(lab.folder / "lab.key", ["plant"])
    assert problem() == "key 'lab' is not trusted as controller; servonode keys trust lab.key --role controller"
    desk.store.revoke("lab")
    (other := desk.folder / "other").mkdir()
    desk.store.trust(KeyStore(other / "keys").new("lab"), ["controller"])
    assert problem() == "'lab' is the name of another key than at the start; trust the former one again, or start anew"


def test_a_server_that_is_not_the_expected_one_gets_nothing(desk: Desk) -> None:
    lab = desk.pair("lab", "controller")
    false = KeyStore(desk.folder / "false")
    false.new("desk")
    false.trust(lab.folder / "lab.key", ["controller"])
    desk.auth.close()
    desk.auth = Authenticator(false)
    desk.router, desk.address = desk.bound(desk.auth.server("controller"), anew=True)
    assert desk.refused(desk.of(lab))
    lab.revoke("desk")
    with pytest.raises(KeyFileError, match=r"key 'desk' is not trusted; servonode keys trust desk.key --role plant"):
        Authenticator(lab).client("desk", "plant")
    lab.trust(desk.public, ["controller"])
    with pytest.raises(KeyFileError, match="key 'desk' is not trusted as plant"):
        Authenticator(lab).client("desk", "plant")


def test_without_someone_who_answers_for_keys_nobody_connects(desk: Desk) -> None:
    secure = Authenticator(desk.pair("lab", "controller")).client("desk", "controller")
    assert desk.request(desk.client(secure)) is not None
    desk.auth.close()
    desk.router, address = desk.bound(lambda opened: _server_alone(opened, desk.store), anew=True)
    desk.client(secure, address).send(b"ask")
    assert not desk.router.poll(int(REFUSED_S * 1e3))


def _server_alone(opened: zmq.Socket, store: KeyStore) -> None:
    """Secure a socket as an Authenticator does, which is then no longer there."""
    auth = Authenticator(store)
    auth.server("controller")(opened)
    auth.close()


def test_a_flood_of_strangers_leaves_the_round_trip_of_a_good_link_as_it_is(desk: Desk) -> None:
    client = desk.of(desk.pair("lab", "controller"))
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
