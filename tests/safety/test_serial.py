"""The promises with firmware on a serial line, which is a pseudo-terminal: the robot that `make robot` builds."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.firmware import Firmware
from tests.safety.suite import Beside, Driver, safety_suite


class Serial(Driver):
    name = "serial"
    settings = ('plant.driver="serial"', "run.speed=1", "plant.safety.limit=1.0")

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with tempfile.TemporaryDirectory() as folder:
            port = Path(folder, "port")
            with Firmware("robot", "--pty", str(port)) as robot:
                yield Beside((f'plant.device.port="{port}"',), pid=robot.pid)


TestSerial = safety_suite(Serial())
