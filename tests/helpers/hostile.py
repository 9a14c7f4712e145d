"""Floods against a tcp address with keys, as fast as they are taken, by who has no key and by who has one.

Each gives the number of messages that it has sent, again and again. What is said behind the first false word of a
connection counts too: libzmq hangs up there, and never reads the rest.
"""

import itertools
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import zmq

from tests.helpers.curve_strangers import GREETING, HELLO, Clients, Connections, Pair
from tests.helpers.strangers import frame, opening

FRAMES = 100  # on one connection
PAUSE_S = 0.002  # between two clients of libzmq, for their handshakes
BATCH = 1000  # subscriptions between two signs that all have been taken
SIGN_MS = 20_000  # to wait for such a sign


@dataclass(frozen=True)
class Place:
    """An address, and what its attackers know and have.

    server: its public key; pairs: a trusted one ("known"), one without the role, one that is no longer trusted;
    replayed: what a client with the known pair has sent.
    """

    port: int
    server: bytes
    pairs: dict[str, Pair] = field(default_factory=dict)
    replayed: bytes = b""


Flood = Callable[[Place], Iterator[int]]


def saying(said: Callable[[Place], bytes], messages: int = 1, at_once: int = 12) -> Flood:
    """Connections of which each says this, so many messages."""

    def flood(place: Place) -> Iterator[int]:
        connections = Connections(place.port, lambda: said(place), at_once)
        while True:
            connections.open_another()
            yield messages

    return flood


def handshakes(pair: str, server: bool = True) -> Flood:
    """Clients of libzmq with this pair, or with one that nobody knows; server: whether they know the server's key."""

    def flood(place: Place) -> Iterator[int]:
        key = place.server if server else zmq.curve_keypair()[0]
        clients = Clients(place.port, key, place.pairs.get(pair))
        while True:
            clients.open_another()
            time.sleep(PAUSE_S)
            yield 1

    return flood


def subscriptions(said: Callable[[int], list[bytes]]) -> Flood:
    """A client with the known pair that sends these, of which `said` gives a batch by its number.

    A subscription to what is published stands behind each batch: once something comes, all of it was taken.
    """

    def flood(place: Place) -> Iterator[int]:
        with zmq.Context() as context, secured(context, zmq.XSUB, place) as opened:
            for number in itertools.count():
                batch = said(number)
                for each in (*batch, b"\x01applied"):
                    opened.send(each)
                while opened.poll(SIGN_MS):
                    if opened.recv_multipart()[0] == b"applied":
                        break
                else:
                    raise TimeoutError(f"nothing came within {SIGN_MS} ms after a batch of subscriptions")
                opened.send(b"\x00applied")
                while opened.poll(0):
                    opened.recv_multipart()
                yield len(batch) + 2

    return flood


def messages(said: Callable[[int], list[bytes]]) -> Flood:
    """A client of a relay with the known pair that sends these, of which `said` gives one by its number.

    A hello stands behind each batch: once it is answered, all of it was taken.
    """

    def flood(place: Place) -> Iterator[int]:
        with zmq.Context() as context, secured(context, zmq.DEALER, place) as opened:
            for number in itertools.count():
                opened.send_multipart(said(number))
                if number % BATCH == BATCH - 1:
                    _answered(opened)
                    yield BATCH

    return flood


def secured(context: "zmq.Context[Any]", kind: int, place: Place) -> "zmq.Socket[Any]":
    """A socket with the known pair, connected."""
    opened = context.socket(kind)
    opened.setsockopt(zmq.LINGER, 0)
    opened.setsockopt(zmq.SNDHWM, 0)  # else some would be dropped here
    opened.curve_serverkey = place.server
    opened.curve_publickey, opened.curve_secretkey = place.pairs["known"]
    opened.connect(f"tcp://127.0.0.1:{place.port}")
    return opened


def _answered(opened: "zmq.Socket[Any]") -> None:
    """Say hello until it is refused; what else is answered meanwhile is thrown away."""
    end = time.monotonic() + SIGN_MS / 1e3
    while time.monotonic() < end:
        opened.send_multipart([b"H", HELLO_TO_RELAY % (0, 0)])
        while opened.poll(100):
            if opened.recv_multipart()[0] == b"R":
                return
    raise TimeoutError(f"no answer came within {SIGN_MS} ms after a batch of messages")


def computing(_: Place) -> Iterator[int]:
    """No messages: what any other busy process costs."""
    while True:
        sum(range(1000))
        yield 0


BEFORE: dict[str, tuple[Flood, float]] = {  # before authentication, each with its share of all messages
    "garbage": (saying(lambda _: b"".join(frame(os.urandom(40)) for _ in range(FRAMES)), FRAMES), 0.3),
    "garbage behind a greeting": (
        saying(lambda _: GREETING + b"".join(frame(os.urandom(40), 4) for _ in range(FRAMES)), FRAMES),
        0.25,
    ),
    "no keys": (saying(lambda _: opening(b"SUB") + frame(b"\x01state") * FRAMES, FRAMES), 0.272),
    "half a handshake": (saying(lambda _: GREETING + HELLO), 0.03),
    "false handshake": (saying(lambda _: GREETING + HELLO + os.urandom(120)), 0.03),
    "replayed handshake": (saying(lambda place: place.replayed, 3), 0.07),
    "connections": (saying(lambda _: b"", at_once=0), 0.03),
    "connections that stay": (saying(lambda _: b"", at_once=1000), 0.002),
    "wrong server key": (handshakes("", server=False), 0.004),
    "unknown key": (handshakes(""), 0.004),
    "revoked key": (handshakes("revoked"), 0.004),
    "key without the role": (handshakes("other role"), 0.004),
}
AFTER: dict[str, tuple[Flood, float]] = {  # by who has the machine's own key
    "subscriptions": (subscriptions(lambda n: [b"\x01%030d" % (BATCH * n + each) for each in range(BATCH)]), 0.4),
    "subscriptions that come and go": (subscriptions(lambda _: [b"\x01state", b"\x00state"] * (BATCH // 2)), 0.3),
    "no subscriptions": (subscriptions(lambda _: [b"\x02" + os.urandom(30) for _ in range(BATCH)]), 0.3),
}
HELLO_TO_RELAY = b'{"start":1,"nodes":["%d"],"manifest":{"servonode":"%d"}}'
AT_RELAY: dict[str, tuple[Flood, float]] = {  # by who has a key with the role observe alone
    "states": (messages(lambda _: [b"T\x02", b"state", os.urandom(200)]), 0.3),
    "strangers": (messages(lambda _: [b"?"]), 0.1),
    "requests": (messages(lambda _: [b"Q\x02" + bytes(8), bytes(32), b"\x81\xa3ask\xa6disarm"]), 0.2),
    "hellos": (messages(lambda n: [b"H", HELLO_TO_RELAY % (n, n)]), 0.2),
    "no messages": (messages(lambda _: [os.urandom(40), os.urandom(40)]), 0.2),
}
COMPUTING = {"none, but computing": (computing, 0.0)}
TO_MACHINE = COMPUTING | BEFORE | AFTER  # at the address of an external machine's inputs
ANY_ROLE = "key without the role"  # a relay lets every trusted key connect
TO_RELAY = COMPUTING | {name: each for name, each in BEFORE.items() if name != ANY_ROLE} | AT_RELAY
FLOODS = TO_MACHINE | TO_RELAY
_context = multiprocessing.get_context("spawn")


@contextmanager
def attacker(name: str, place: Place) -> Iterator[tuple[int, Any]]:
    """The process of the flood of this name: its id, and the number (`value`) of messages that it has sent."""
    sent = _context.Value("q", 0)
    process = _context.Process(target=_attack, args=(name, place, sent), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        yield process.pid, sent
        assert process.is_alive(), f"{name} has ended early"
    finally:
        process.kill()
        process.join()


def _attack(name: str, place: Place, sent: Any) -> None:
    """Flood for ever."""
    os.nice(19)  # what is tried is the sockets, not how a computer shares out its cores
    for number in FLOODS[name][0](place):
        sent.value += number


def recorded(place: Place, kind: int, says: bytes) -> bytes:
    """What a client of this kind with the known pair sends until it gets a first message, which it has asked for."""
    said: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        thread = threading.Thread(target=_pass_on, args=(proxy, place.port, said), daemon=True)
        thread.start()
        here = replace(place, port=proxy.getsockname()[1])
        with zmq.Context() as context, secured(context, kind, here) as client:
            client.send(says)
            assert client.poll(SIGN_MS), "a client with a trusted key has received nothing"
        thread.join()
    return b"".join(said)


def _pass_on(proxy: socket.socket, port: int, said: list[bytes]) -> None:
    """Pass on both ways what one client and the server say, until the client ends; keep what the client says."""
    client, _ = proxy.accept()
    with client, socket.create_connection(("127.0.0.1", port)) as server:

        def forth() -> None:
            with suppress(OSError):
                while piece := client.recv(65536):
                    said.append(piece)
                    server.sendall(piece)
                server.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=forth, daemon=True)
        thread.start()
        with suppress(OSError):
            while piece := server.recv(65536):
                client.sendall(piece)
        thread.join()
