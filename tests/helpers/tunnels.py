"""Both ends of a tunnel in the test's own process, with keys."""

import select
from collections.abc import Callable
from pathlib import Path

from servonode.bus.curve import Authenticator
from servonode.bus.envelope import Busy, Envelope
from servonode.bus.keys import ROLES, KeyStore, TrustedKey
from servonode.bus.tunnel import Tunnel
from tests.helpers.events import LONG_S, soon
from tests.helpers.ports import free_port


class End:
    """One end of a tunnel, and what came there."""

    def __init__(self, tunnel: Tunnel) -> None:
        self.tunnel = tunnel
        self.came: list[tuple[bytes, str, Envelope]] = []

    def say(self, *texts: str, peer: bytes = b"") -> None:
        """Send each as an envelope that has a text."""
        for text in texts:
            self.tunnel.send(peer, Busy(text))

    def texts(self) -> list[str]:
        """The texts of what came."""
        return [each.why for _, _, each in self.came if isinstance(each, Busy)]

    def work(self, wait_s: float = 0.0) -> None:
        """One turn, after a sleep on its descriptors as a relay has it."""
        wake_ns = self.tunnel.look(soon(0))
        if not self.tunnel.waits() and not wake_ns:
            select.select(self.tunnel.fds, (), (), wait_s)
        self.tunnel.receive(self._take)

    def _take(self, peer: bytes, key: TrustedKey | None, envelope: Envelope) -> None:
        self.came.append((peer, key.name if key else "", envelope))


class Ends:
    """Both ends, with keys; the desk's is not trusted yet."""

    def __init__(self, folder: Path) -> None:
        self.robot_keys, self.desk_keys = KeyStore(folder / "robot"), KeyStore(folder / "desk")
        self.desk_key = self.desk_keys.new("desk")
        self.desk_keys.trust(self.robot_keys.new("robot"), ["plant"])
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.robot, self.desk = self.listening(), self.connecting()

    def listening(self) -> End:
        keys = Authenticator(self.robot_keys)
        return End(Tunnel(self.address, True, keys, keys.server(*ROLES)))

    def connecting(self) -> End:
        keys = Authenticator(self.desk_keys)
        return End(Tunnel(self.address, False, keys, keys.client("robot", "plant"), "robot"))

    def trust(self, *roles: str) -> None:
        self.robot_keys.trust(self.desk_key, roles)

    def until(self, holds: Callable[[], object], said: str = "", within_s: float = LONG_S) -> bool:
        """Whether it holds in time; the desk says this meanwhile."""
        limit = soon(within_s)
        while not holds() and soon(0) < limit:
            if said:
                self.desk.say(said)
            self.robot.work()
            self.desk.work(0.005)
        return bool(holds())

    def close(self) -> None:
        self.robot.tunnel.close()
        self.desk.tunnel.close()
