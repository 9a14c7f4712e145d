"""CURVE with ZAP over real sockets: who may connect, who may ask what; all else is refused and counted."""

import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import zmq

from servonode.bus import Applied, State, encode
from servonode.bus.curve import Authenticator, SecureLink
from servonode.bus.keys import KeyStore
from servonode.bus.zmq_io import Secure, open_socket
from tests.bus.test_curve import REFUSED_S
from tests.helpers.curve_strangers import curve_stranger
from tests.helpers.ports import free_port
from tests.helpers.runs import START_S, eventually


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


FLOODS = {  # at most so many times the undisturbed round trip; a key is looked up in the link's own thread
    "unknown key": 2.0,
    "wrong server key": 1.5,
    "half a handshake": 1.5,
    "false handshake": 1.5,
    "reconnections": 1.5,
}
PLAYS = 3  # of a test that other processes of this computer disturb


class Linked:
    """The link of a run to its machine over tcp with keys, and the machine, both in this thread."""

    def __init__(self, folder: Path) -> None:
        desk, robot = KeyStore(folder / "desk"), KeyStore(folder / "robot")
        desk_key, robot_key = desk.new("desk"), robot.new("robot")
        desk.trust(robot_key, ["plant"])
        robot.trust(desk_key, ["controller"])
        self.desk, self.port = desk, free_port()
        state_address, applied_address = f"tcp://127.0.0.1:{free_port()}", f"tcp://127.0.0.1:{self.port}"
        self.link = SecureLink(state_address, applied_address, Authenticator(desk), "robot")
        self.link.open()
        self.auth = Authenticator(robot)
        self.context = zmq.Context()
        self.out = open_socket(self.context, zmq.PUB, self.auth.server("controller", name="desk"))
        self.into = open_socket(self.context, zmq.SUB, self.auth.client("desk", "controller"))
        self.into.subscribe("")
        self.out.bind(state_address)
        self.into.connect(applied_address)
        self.seq = 0

    def meet(self) -> bool:
        """Whether messages go both ways."""
        return eventually(lambda: self._passes(0.05) is not None)

    def tick(self) -> tuple[float, float]:
        """The time [s] of an input to the machine and of its answer, and the processor time [s] of the link in it."""
        found = self._passes(2.0)
        assert found is not None
        return found

    def _passes(self, within_s: float) -> tuple[float, float] | None:
        self.auth.look(time.monotonic_ns())
        self.seq += 1
        begin = time.monotonic()
        used = -time.thread_time()
        self.link.send("applied", Applied(**HEADER, **INPUT, seq=self.seq))
        used += time.thread_time()
        if not self.into.poll(int(within_s * 1e3)):
            self.link.receive()
            return None
        self.into.recv_multipart()
        self.out.send_multipart(
            [b"state", encode(State(**HEADER, seq=self.seq, state={"x": 0.1}, input={}, control=False))]
        )
        while time.monotonic() < begin + within_s:
            select.select(self.link.fds, (), (), 0.01)
            used -= time.thread_time()
            came = self.link.receive()
            used += time.thread_time()
            if came:
                return time.monotonic() - begin, used
        return None

    def close(self) -> None:
        self.link.close()
        self.auth.close()
        self.context.destroy(linger=0)


HEADER: dict[str, Any] = {"t": 0.1, "run": 1, "k": 1, "mono": 1, "node": "plant", "src": 1}
INPUT: dict[str, Any] = {"input": {"u": 0.5}, "desired": {"u": 0.5}, "re": -1, "reasons": [], "repeats": 0}


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Linked]:
    made = Linked(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_of_strangers_leaves_the_round_trip_of_a_link_as_it_is(linked: Linked, what: str) -> None:
    assert linked.meet()
    server = linked.desk.pair().public
    with curve_stranger(what, linked.port, server) as popen:
        time.sleep(0.35)  # for it to start
        assert any(_is_undisturbed(linked, popen, FLOODS[what]) for _ in range(PLAYS))
        assert popen.poll() is None
    assert linked.link.counts.keys() == ({"unknown_key"} if what == "unknown key" else set())


def _is_undisturbed(linked: Linked, popen: "subprocess.Popen[bytes]", bound: float) -> bool:
    """Whether a round trip takes at most so many times that without strangers, who pause in between, and the link's
    own thread less than 0.2 ms more.
    """
    quiet: list[tuple[float, float]] = []
    flooded: list[tuple[float, float]] = []
    for ticks, number in ((quiet, signal.SIGSTOP), (flooded, signal.SIGCONT)) * 4:
        popen.send_signal(number)
        for _ in range(40):
            ticks.append(linked.tick())
            time.sleep(0.001)
    (trip, link), (flooded_trip, flooded_link) = (map(median, zip(*each, strict=True)) for each in (quiet, flooded))
    return flooded_trip < bound * trip and flooded_link < link + 2e-4
