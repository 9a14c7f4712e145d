"""The serial driver: the machine is a microcontroller on a serial port, which speaks docs/reference/firmware.md."""

from typing import TYPE_CHECKING

from servonode.plants.drivers.driver import DriverError, Stated, check_pace
from servonode.plants.drivers.packet_driver import packet_driver

if TYPE_CHECKING:  # imported when a port is opened or judged
    from servonode.plants.drivers.line_traffic import Line
    from servonode.plants.drivers.transport import Transport

SECTION = "plant.device"


def _check(stated: Stated) -> None:
    """Refuse a missing port, and a speed that hardware cannot have."""
    if not stated.device["port"]:
        text = "missing; name the board's serial port, such as /dev/ttyACM0 (python -m serial.tools.list_ports)"
        raise DriverError(SECTION, "port", text)
    check_pace(stated)


def _ready(stated: Stated) -> None:
    from servonode.plants.drivers.serial_transport import extra_problem, port_problem

    if problem := extra_problem() or port_problem(stated.device["port"]):
        raise DriverError(SECTION, "port", problem)


def _transport(stated: Stated) -> "Transport":
    from servonode.plants.drivers.serial_transport import SerialTransport

    device = stated.device
    return SerialTransport(device["port"], device["baud"])


def _line(stated: Stated) -> "Line":
    from servonode.plants.drivers.line_traffic import serial_line

    return serial_line(stated.device["baud"])


DRIVER = packet_driver(
    "serial",
    "a microcontroller on a serial port",
    ("device.port", "device.baud"),
    _transport,
    line=_line,
    check=_check,
    ready=_ready,
)
