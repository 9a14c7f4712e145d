"""What waits to leave over a line that is slower than it is asked to be."""

from servonode.plants.drivers.packets import is_replaced


class Outgoing:
    """At most one packet of inputs, the newest, beside setups and the end of a run, which go first.

    Those are replaced by nothing but another one, so that nothing old reaches the machine and no queue grows.
    """

    def __init__(self) -> None:
        self.first: list[bytes] = []
        self._newest = b""

    def put(self, packet: bytes) -> bool:
        """Let a packet wait; whether it takes the place of another one of inputs."""
        replaced = bool(self._newest)
        if is_replaced(packet):
            self._newest = packet
            return replaced
        self._newest = b""
        self.first = [*self.first[-1:], packet]
        return False

    def take(self) -> bytes:
        """The packet that leaves next; empty: none waits."""
        if self.first:
            return self.first.pop(0)
        packet, self._newest = self._newest, b""
        return packet

    def clear(self) -> None:
        """Let nothing wait."""
        self.first, self._newest = [], b""

    def __bool__(self) -> bool:
        return bool(self.first or self._newest)
