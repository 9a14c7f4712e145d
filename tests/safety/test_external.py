"""The promises with a machine that is a process of its own: the example of a robot written by hand, on tcp."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.safety.suite import Beside, Driver, safety_suite

ROBOT = Path(__file__).parents[2] / "examples" / "external_plant.py"


def free_ports() -> tuple[int, int]:
    """Two tcp ports that nobody uses at present."""
    with socket.socket() as first, socket.socket() as second:
        for opened in (first, second):
            opened.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


class External(Driver):
    name = "external"
    settings = ('plant.driver="external"',)

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        ports = free_ports()
        state, applied = (f"tcp://127.0.0.1:{port}" for port in ports)
        robot = subprocess.Popen([sys.executable, str(ROBOT), state, applied])
        try:
            yield Beside((f'plant.device.state="{state}"', f'plant.device.applied="{applied}"'), ports, robot.pid)
        finally:
            robot.kill()
            robot.wait()


TestExternal = safety_suite(External())
