"""CURVE with ZAP over real sockets: who may connect, who may ask what; all else is refused and counted."""

import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from servonode.bus.curve import Authenticator, SecureLink
from servonode.bus.keys import KeyFileError, KeyStore, TrustedKey
from servonode.bus.zmq_io import Secure, open_socket
from tests.helpers.events import LONG_S, soon
from tests.helpers.ports import free_port

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
        return self.client(Authenticator(store).client("desk", "plant", "controller"))

    def request(self, client: zmq.Socket, within: float = LONG_S) -> zmq.Frame | None:
        """What arrives of a request of this client, its last frame; None: nothing does."""
        client.send(b"ask")
        until = soon(within)
        while (now := soon(0)) < until:
            self.auth.look(now)
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
    desk.router, desk.address = desk.bound(desk.auth.server("plant", name="robot"))
    assert desk.refused(desk.of(stores["other"]))
    assert desk.auth.counts == {"role_of_key_other": 1}
    assert desk.request(desk.of(stores["robot"])) is not None


def test_one_of_several_roles_will_do_and_each_message_names_its_sender(desk: Desk) -> None:
    desk.router, desk.address = desk.bound(desk.auth.server("controller", "operate"))
    for name, roles in (("lab", ("observe", "operate")), ("tower", ("plant", "controller"))):
        frame = desk.request(desk.of(desk.pair(name, *roles)))
        assert frame is not None
        key = desk.auth.key_of(frame.get("User-Id"))
        assert key is not None
        assert (key.name, key.roles) == (name, roles)
    assert desk.refused(desk.of(desk.pair("robot", "observe", "plant")))
    assert desk.auth.counts == {"role_of_key_robot": 1}


def test_a_key_that_is_revoked_while_connected_is_nobody_from_then_on(desk: Desk) -> None:
    lab, tower = desk.pair("lab", "controller"), desk.pair("tower", "controller")
    client, other = desk.of(lab), desk.of(tower)

    def sender(client: zmq.Socket) -> TrustedKey | None:
        frame = desk.request(client)
        assert frame is not None  # its connection goes on: whoever receives asks for the key
        return desk.auth.key_of(frame.get("User-Id"))

    assert sender(client) == desk.store.trusted_as("lab")
    desk.store.revoke("lab")
    assert sender(client) is None
    assert sender(other) == desk.store.trusted_as("tower")
    assert desk.auth.counts == {"revoked_key_lab": 1}
    trusted = desk.store.trust(lab.folder / "lab.key", ["observe"])
    assert sender(client) == trusted  # with the roles of today


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
    text = "key 'lab' is not trusted as controller; servonode keys trust lab.key --role plant --role controller"
    assert problem() == text
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
    text = "key 'desk' is not trusted as plant or observe; servonode keys trust desk.key --role controller --role plant"
    with pytest.raises(KeyFileError, match=text):
        Authenticator(lab).client("desk", "plant", "observe")
    assert Authenticator(lab).client("desk", "plant", "controller")


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


def test_a_link_to_a_machine_that_is_not_trusted_leaves_nothing_open(tmp_path: Path) -> None:
    store, port = KeyStore(tmp_path / "desk"), free_port()
    store.new("desk")
    link = SecureLink(f"tcp://127.0.0.1:{free_port()}", f"tcp://127.0.0.1:{port}", Authenticator(store), "robot")
    with pytest.raises(KeyFileError, match="key 'robot' is not trusted"):
        link.open()
    socket.create_server(("127.0.0.1", port)).close()
    link.close()


def test_a_link_says_that_another_key_than_the_machines_has_asked_and_that_its_own_is_revoked(desk: Desk) -> None:
    false, _ = desk.pair("false"), desk.pair("robot", "plant")
    states, applied = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    link = SecureLink(states, applied, Authenticator(desk.store), "robot")
    link.open()
    with zmq.Context() as context, context.socket(zmq.SUB) as opened:
        Authenticator(false).client("desk", "controller")(opened)
        opened.subscribe("")
        opened.connect(applied)
        deadline = soon()
        while not link.counts["unknown_key"] and soon(0) < deadline:
            link.receive()
            select.select(link.fds, (), (), 0.02)
    assert link.counts["unknown_key"] > 0
    assert "nobody with the key 'robot' has connected; check that the machine runs, that it has that key" in link.hint
    desk.store.revoke("robot")
    while not link.lost and soon(0) < deadline:
        link.receive()
    assert "the machine's key 'robot' is no longer trusted" in link.lost
    link.close()
