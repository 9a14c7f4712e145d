"""The promises with the driver of examples/driver, which docs/how_to/hardware.md explains, as an installed package."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.firmware import free_udp_port
from tests.helpers.packages import WHEELS, install_wheels
from tests.soak.suite import Beside, Driver, safety_suite


class Wheels(Driver):
    name = "wheels"
    settings = ('plant.driver="wheels"', "run.speed=1", "plant.safety.limit=1.0")

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        port = free_udp_port()
        with tempfile.TemporaryDirectory() as site, pytest.MonkeyPatch.context() as patch:
            install_wheels(Path(site))
            patch.setenv("PYTHONPATH", site)
            robot = subprocess.Popen([sys.executable, str(WHEELS / "robot.py"), str(port)])
            try:
                yield Beside((f"plant.device.settings.port={port}",), pid=robot.pid)
            finally:
                robot.kill()
                robot.wait()


TestWheels = safety_suite(Wheels())
