"""What carries the packets of docs/reference/firmware.md: a serial line, datagrams."""

from collections import Counter
from typing import Protocol


class Transport(Protocol):
    """Carries packets unchanged; no call blocks."""

    counts: Counter[str]  # received data that is not a packet, by reason
    lost: str  # why nothing can come at present, with the remedy; empty: something can
    came: int  # bytes received so far
    place: str  # where the machine is, for people

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable when something may have come."""

    @property
    def hint(self) -> str:
        """A possible reason why the machine does not answer, as far as the transport shows; empty: not known."""

    def open(self) -> None:
        """Open it. Raises BusError where it cannot be opened."""

    def send(self, packet: bytes) -> None:
        """Send a packet; it is lost if nobody reads."""

    def receive(self, bound: int) -> list[bytes]:
        """The packets that have come, at most so many; what waits for a free line is sent."""

    def due(self) -> int | None:
        """When the line is free for what waits [monotonic ns]; None: nothing waits."""

    def reopen(self) -> None:
        """Try to open it again where it is lost."""

    def close(self) -> None:
        """Free everything; a second call does nothing."""
