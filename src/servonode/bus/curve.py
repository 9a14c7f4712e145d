"""Encrypted sockets: CURVE, and ZAP for the keys that may connect, answered in the node's own thread.

libzmq asks whether a key may connect at `inproc://zeromq.zap.01` of the socket's context, with the domain that the
socket states: here the roles of which the key must have one and, where only one key will do, its name. Without an
answer it refuses (ZAP_ENFORCE_DOMAIN), as it refuses what has no CURVE; that does not come here and is not counted.

Each frame that a socket then receives bears the sender's public key as its "User-Id".
"""

import time
from collections import Counter
from contextlib import suppress
from typing import Any

import zmq
import zmq.auth

from servonode.bus.codec import BOUND
from servonode.bus.keys import PUBLIC, ROLE_OF, ROLES, KeyFileError, KeyStore, TrustedKey
from servonode.bus.link import ExternalLink
from servonode.bus.messages import Message
from servonode.bus.run_folder import BusError
from servonode.bus.topology import PLANT
from servonode.bus.zmq_io import NOBLOCK, Secure

PLANT_ROLE = ROLE_OF[PLANT]  # of a machine, as a run sees it
BUDGET_NS = 100_000  # of one call of `look`
REST = 4  # how long `look` pauses, in times of what the last call took
MOST_NAMES = 100  # revoked keys whose names are remembered
LOOK_NS = 50_000_000  # between two looks whether the key is trusted still


class Authenticator:
    """Says which keys may connect to the sockets of one context; counts the refused by reason and, if known, name.

    Its owner calls `look` when `fd` is readable, not before `due_ns`, and at `wake_ns`. key: the name of our own pair;
    without it, the only one in the store. Make it after the fork, and close it before the context.
    """

    def __init__(self, store: KeyStore, key: str = "") -> None:
        self.store = store
        self.counts: Counter[str] = Counter()
        self.due_ns = 0  # the time before which `look` rests
        self.wake_ns = 0  # the time at which to look although `fd` is not readable; 0: none
        self._pair = store.pair(key)
        self._handler: zmq.auth.Authenticator | None = None
        self._domains: dict[str, tuple[tuple[str, ...], str]] = {}  # roles and name that each asks for
        self._expected: dict[str, bytes] = {}  # keys at the other end, by name, as they were first trusted
        self._names: dict[bytes, str] = {}  # of the keys that were trusted since the start

    @property
    def own_key(self) -> str:
        """The name of our own pair."""
        return self._pair.name

    @property
    def fd(self) -> int:
        """Readable when libzmq asks; there is one once a socket was secured."""
        assert self._handler is not None
        return int(self._handler.zap_socket.get(zmq.FD))

    def server(self, *roles: str, name: str = "") -> Secure:
        """What secures a socket that binds: trusted keys with one of these roles may connect; name: only this key."""

        def secure(opened: "zmq.Socket[Any]") -> None:
            self._open(opened.context).configure_curve_callback(domain, self)
            opened.setsockopt(zmq.CURVE_SERVER, 1)
            opened.setsockopt(zmq.CURVE_SECRETKEY, self._pair.secret)
            opened.setsockopt(zmq.ZAP_DOMAIN, domain.encode())
            opened.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

        assert roles
        assert ROLES.keys() >= set(roles)
        domain = f"{','.join(roles)} {name}".rstrip()
        self._domains[domain] = (roles, name)
        return secure

    def client(self, name: str, *roles: str) -> Secure:
        """What secures a socket that connects: the other end must have the key of this name, with one of these roles.

        Raises KeyFileError where no such key is trusted.
        """
        if problem := self.problem_of(name, *roles):
            raise KeyFileError(problem)
        public = self._expected[name]

        def secure(opened: "zmq.Socket[Any]") -> None:
            opened.setsockopt(zmq.CURVE_SERVERKEY, public)
            opened.setsockopt(zmq.CURVE_PUBLICKEY, self._pair.public)
            opened.setsockopt(zmq.CURVE_SECRETKEY, self._pair.secret)

        return secure

    def key_of(self, user_id: str) -> TrustedKey | None:
        """The key with which a frame was sent, by its "User-Id", as it is trusted now; None, and counted: it is not."""
        public = user_id.encode()
        key = self.store.trusted().get(public)
        if key is None:
            self._count_unknown(public)
        return key

    def problem_of(self, name: str, *roles: str) -> str:
        """Why no key of this name is trusted for one of these roles, with the remedy; empty: one is, as at first."""
        key = self.store.trusted_as(name)
        if key is None and (problem := self.store.problem_of(name)):
            return problem
        if key is None or not set(roles) & set(key.roles):
            missing = "is not trusted" if key is None else f"is not trusted as {' or '.join(roles)}"
            kept = (*(key.roles if key else ()), roles[0])  # those that are not named again would be lost
            return f"key {name!r} {missing}; servonode keys trust {name}{PUBLIC} --role {' --role '.join(kept)}"
        if key.public != self._expected.setdefault(name, key.public):
            return f"{name!r} is the name of another key than at the start; trust the former one again, or start anew"
        return ""

    def callback(self, domain: str, public: bytes) -> bool:
        """Whether a key may connect to a socket of this domain: what pyzmq asks its credentials provider."""
        roles, name = self._domains[domain]
        key = self.store.trusted().get(public)
        if key is None:
            self._count_unknown(public)
            return False
        if len(self._names) < MOST_NAMES:
            self._names[public] = key.name
        if set(roles) & set(key.roles) and name in ("", key.name):
            return True
        self.counts[f"role_of_key_{key.name}"] += 1
        return False

    def look(self, now: int) -> None:
        """Answer what libzmq asks, for about BUDGET_NS; what is left comes after a pause."""
        handler = self._handler
        if handler is None:
            return
        self.wake_ns = 0
        clock = now
        with suppress(zmq.Again):
            while clock - now < BUDGET_NS:
                question = handler.zap_socket.recv_multipart(NOBLOCK)
                with suppress(StopIteration):  # a coroutine that never waits
                    handler.handle_zap_message(question).send(None)
                clock = time.monotonic_ns()
            self.wake_ns = clock + REST * (clock - now)  # the descriptor has been signalled already
        self.due_ns = clock + REST * (clock - now)

    def close(self) -> None:
        """Answer no more: nobody can connect any more. A second call does nothing."""
        if self._handler is not None:
            self._handler.stop()
            self._handler = None

    def _open(self, context: "zmq.Context[Any]") -> zmq.auth.Authenticator:
        """The handler of this context, bound where libzmq asks."""
        if self._handler is None:
            handler = zmq.auth.Authenticator(context)
            try:
                handler.start()
            except zmq.ZMQError as error:
                handler.stop()  # an open socket would keep the context from ending
                raise BusError(f"the keys of this context are in use ({error}); take another context") from None
            self._handler = handler
        return self._handler

    def _count_unknown(self, public: bytes) -> None:
        name = self._names.get(public)
        self.counts["unknown_key" if name is None else f"revoked_key_{name}"] += 1


class SecureLink(ExternalLink):
    """As `ExternalLink`, on any computers; machine: the name of the machine's trusted key.

    Where that key is revoked, the machine's messages are refused from then on. What is sent still reaches it: its zero
    and its end.
    """

    def __init__(self, state_address: str, applied_address: str, keys: Authenticator, machine: str) -> None:
        super().__init__(state_address, applied_address, self._secure_socket, far=True)
        self._keys, self._machine = keys, machine
        self._look_ns = 0  # the time of the next look
        self._problem = ""  # why its key is no longer trusted

    @property
    def lost(self) -> str:
        """Why the machine's messages are refused, with the remedy; empty: they are not."""
        if not self._problem:
            return ""
        return f"the machine's key {self._machine!r} is no longer trusted: {self._problem}; then reset the run"

    @property
    def hint(self) -> str:
        """A possible reason why the machine does not answer."""
        if self._problem or self.listened():
            return self.lost
        return (
            f"nobody with the key {self._machine!r} has connected; check that the machine runs, that it has that key, "
            "and that it trusts ours (servonode keys show, on both computers)"
        )

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when something may have come, or somebody wants to connect."""
        found = super().fds
        return (*found, self._keys.fd) if found and time.monotonic_ns() >= self._keys.due_ns else found

    def open(self) -> None:
        """As in `ExternalLink`; KeyFileError where the machine's key is not trusted."""
        self._keys.client(self._machine, PLANT_ROLE)  # here, before anything is open
        super().open()
        self._keys.counts = self.counts  # what is refused is counted in one place

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """The messages that have come, none from a machine whose key is no longer trusted; answers for keys."""
        now = time.monotonic_ns()
        if now >= self._keys.due_ns:
            self._keys.look(now)
        if now >= self._look_ns:
            self._look_ns = now + LOOK_NS
            self._problem = self._keys.problem_of(self._machine, PLANT_ROLE)
        found = super().receive(bound)
        if not self._problem:
            return found
        self.counts["revoked_key"] += len(found)
        return []

    def due(self) -> int | None:
        """As in `ExternalLink`; also when somebody who wants to connect has waited long enough."""
        times = [each for each in (super().due(), self._keys.wake_ns or None) if each is not None]
        return min(times, default=None)

    def close(self) -> None:
        """As in `ExternalLink`."""
        self._keys.close()
        super().close()

    def _secure_socket(self, opened: "zmq.Socket[Any]") -> None:
        """Give a socket its keys: we publish to the machine, and subscribe to it."""
        if opened.type == zmq.XPUB:
            self._keys.server(PLANT_ROLE, name=self._machine)(opened)
        else:
            self._keys.client(self._machine, PLANT_ROLE)(opened)
