"""The firmware of the robot with the trailer, mutated, as a transport in a time that the test moves."""

from collections import Counter

from tests.helpers.board import Board, library
from tests.helpers.timed_board import WIRE_NS, Time


class MutatedFirmware:
    """A transport to it. mutations: what is replaced in its sources, and by what."""

    lost = hint = ""
    fds: tuple[int, ...] = ()

    def __init__(self, time: Time, mutations: dict[str, str], law: bool = False, readings: bool = False) -> None:
        self._board = Board(self._sent, 9, library(changes=tuple(mutations.items())), law=law, readings=readings)
        self.counts, self.place, self._time, self._at = Counter[str](), "mutated", time, time.now
        self._to_board: list[tuple[int, bytes]] = []
        self.to_host: list[tuple[int, bytes]] = []

    def open(self) -> None: ...
    def close(self) -> None: ...
    def renew(self) -> None: ...

    def due(self) -> int | None:
        return None

    def send(self, packet: bytes) -> None:
        self._to_board.append((self._time.now + WIRE_NS, packet))

    def receive(self, bound: int) -> list[bytes]:
        self.advance()
        came = [data for at, data in self.to_host if at <= self._time.now][:bound]
        del self.to_host[: len(came)]
        return came

    def _sent(self, data: bytes) -> None:
        self.to_host.append((self._at + WIRE_NS, data))

    def advance(self) -> None:
        """All that happens up to now: steps and packets, in order."""
        now = self._time.now
        while True:
            packet, due = self._to_board[0][0] if self._to_board else now + 1, self._board.due()
            self._at = packet if due is None else min(packet, due)
            if self._at > now:
                return
            if self._at == packet:
                self._board.receive(packet, self._to_board.pop(0)[1])
            else:
                self._board.advance(self._at)
