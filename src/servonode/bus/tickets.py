"""Tickets: what makes a request worthless that is late, repeated, or meant for another start of the node.

A client gets a ticket first, and says with its request for how long that is valid. The node remembers when it gave the
ticket out, so its own clock alone judges, and no clock of another computer matters. A client counts the time that is
left from the arrival of the ticket, which is later: what it was told had failed is never carried out.
"""

import secrets
import struct
import time
from collections.abc import Callable

TICKET = struct.Struct("<QQ")  # the node's start, number
MOST = 1024  # tickets that may be unused; the oldest is dropped


class Tickets:
    """The tickets that a node has given out since its start and that are unused."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._start = secrets.randbits(64)
        self._number = 0
        self._given: dict[int, int] = {}  # when, by number, oldest first

    def give(self) -> bytes:
        """A new ticket."""
        self._number += 1
        self._given[self._number] = self._clock()
        if len(self._given) > MOST:
            del self._given[next(iter(self._given))]
        return TICKET.pack(self._start, self._number)

    def spend(self, ticket: bytes, valid_ns: int) -> tuple[str, int]:
        """Why a request with this ticket is refused: other_run, replayed or expired; empty: it is valid, once.

        And until when it is valid, as `has_passed` takes it.
        """
        start, number = TICKET.unpack(ticket)
        if start != self._start:
            return "other_run", 0
        given = self._given.pop(number, None)
        if given is None:
            return "replayed", 0
        until = given + valid_ns
        return "expired" if self.has_passed(until) else "", until

    def has_passed(self, until_ns: int) -> bool:
        """Whether it is later than that."""
        return self._clock() > until_ns
