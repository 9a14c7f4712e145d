"""The link to a machine with a key: it receives only from that key, and sends only to it."""

import time
from typing import Any

import zmq

from servonode.bus.curve import PLANT_ROLE, Authenticator
from servonode.bus.interfaces import BOUND
from servonode.bus.link import ExternalLink
from servonode.bus.messages import Message

LOOK_NS = 50_000_000  # between two looks whether the key is trusted still


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
    def lost(self) -> str:  # type: ignore[override]
        """Why the machine's messages are refused, with the remedy; empty: they are not."""
        if not self._problem:
            return ""
        return f"the machine's key {self._machine!r} is no longer trusted: {self._problem}; then reset the run"

    @property
    def hint(self) -> str:  # type: ignore[override]
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
