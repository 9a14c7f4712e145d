"""Encrypted sockets: CURVE, and ZAP for the keys that may connect, answered in the node's own thread.

libzmq asks whether a key may connect at `inproc://zeromq.zap.01` of the socket's context, with the domain that the
socket states: here the role that the key must have and, where only one key will do, its name. Without an answer it
refuses (ZAP_ENFORCE_DOMAIN), as it refuses what has no CURVE; the latter does not come here and is not counted.
"""

import time
from collections import Counter
from contextlib import suppress
from typing import Any

import zmq
import zmq.auth

from servonode.bus.keys import ROLES, KeyFileError, KeyStore, TrustedKey
from servonode.bus.run_folder import BusError
from servonode.bus.zmq_io import NOBLOCK, Secure

PLANT_ROLE = "plant"  # of a machine, as a run sees it
BUDGET_NS = 100_000  # of one call of `look`
REST = 4  # how long `look` pauses, in times of what the last call took
MOST_NAMES = 100  # revoked keys whose names are remembered


class Authenticator:
    """Says which keys may connect to the sockets of one context; counts the refused by reason and, if known, name.

    A `Waiter` serves it as it does a `Server`. key: the name of our own pair; without it, the only one in the store.
    Make it after the fork, and close it before the context.
    """

    def __init__(self, store: KeyStore, key: str = "") -> None:
        self.store = store
        self.counts: Counter[str] = Counter()
        self.due_ns = self.wake_ns = 0  # as of a `Server`
        self._pair = store.pair(key)
        self._handler: zmq.auth.Authenticator | None = None
        self._domains: dict[str, tuple[str, str]] = {}  # role and name that each asks for
        self._expected: dict[str, bytes] = {}  # keys at the other end, by name, as they were first trusted
        self._names: dict[bytes, str] = {}  # of the keys that were trusted since the start

    @property
    def fd(self) -> int:
        """Readable when libzmq asks; there is one once a socket was secured."""
        assert self._handler is not None
        return int(self._handler.zap_socket.get(zmq.FD))

    def server(self, role: str, name: str = "") -> Secure:
        """What secures a socket that binds: trusted keys with this role may connect, of this name if it is given."""

        def secure(opened: "zmq.Socket[Any]") -> None:
            self._open(opened.context).configure_curve_callback(domain, self)
            opened.setsockopt(zmq.CURVE_SERVER, 1)
            opened.setsockopt(zmq.CURVE_SECRETKEY, self._pair.secret)
            opened.setsockopt(zmq.ZAP_DOMAIN, domain.encode())
            opened.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

        assert role in ROLES
        domain = f"{role} {name}".rstrip()
        self._domains[domain] = (role, name)
        return secure

    def client(self, name: str, role: str) -> Secure:
        """What secures a socket that connects: the other end must have the key that is trusted by this name and role.

        Raises KeyFileError where no such key is trusted.
        """
        expected = self.store.trusted_as(name)
        if expected is None or not self.trusts(name, role):
            missing = f"is not trusted as {role}" if expected else "is not trusted"
            raise KeyFileError(f"key {name!r} {missing}; servonode keys trust {name}.key --role {role}")
        public = expected.public

        def secure(opened: "zmq.Socket[Any]") -> None:
            opened.setsockopt(zmq.CURVE_SERVERKEY, public)
            opened.setsockopt(zmq.CURVE_PUBLICKEY, self._pair.public)
            opened.setsockopt(zmq.CURVE_SECRETKEY, self._pair.secret)

        return secure

    def trusts(self, name: str, role: str) -> bool:
        """Whether a key of this name is trusted for this role, and is the one that was at first."""
        key = self.store.trusted_as(name)
        return key is not None and role in key.roles and key.public == self._expected.setdefault(name, key.public)

    def key_of(self, user_id: str) -> TrustedKey | None:
        """The trusted key that sent a frame, by its property User-Id; None once it is revoked."""
        return self.store.trusted().get(user_id.encode())

    def allowed(self, user_id: str, verb: str) -> bool:
        """Whether the key of a request may make it; counted where it may not."""
        key = self.key_of(user_id)
        if key is None:
            self._count_unknown(user_id.encode())
        elif not key.may(verb):
            self.counts[f"verb_of_key_{key.name}"] += 1
        return key is not None and key.may(verb)

    def callback(self, domain: str, public: bytes) -> bool:
        """Whether a key may connect to a socket of this domain: what pyzmq asks its credentials provider."""
        role, name = self._domains[domain]
        key = self.store.trusted().get(public)
        if key is None:
            self._count_unknown(public)
            return False
        if len(self._names) < MOST_NAMES:
            self._names[public] = key.name
        if role in key.roles and name in ("", key.name):
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
