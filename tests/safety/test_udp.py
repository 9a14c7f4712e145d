"""The promises with firmware that speaks UDP: the robot that `make robot` builds."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.firmware import Firmware, free_udp_port
from tests.safety.suite import Beside, Driver, safety_suite


class Udp(Driver):
    name = "udp"
    settings = ('plant.driver="udp"', "run.speed=1", "plant.safety.limit=1.0")

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        port = free_udp_port()
        with Firmware("robot", "--udp", str(port)) as robot:
            yield Beside((f'plant.device.address="127.0.0.1:{port}"',), pid=robot.pid)


TestUdp = safety_suite(Udp())
