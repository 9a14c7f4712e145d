"""The serial driver: the machine is a microcontroller on a serial port, which speaks docs/reference/firmware.md."""

from typing import TYPE_CHECKING

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import Driver, DriverContext, DriverError, Stated, check_pace
from servonode.plants.drivers.packet_plant import KEYS, packet_plant

if TYPE_CHECKING:  # imported when a port is opened
    from servonode.plants.drivers.line_traffic import Traffic
    from servonode.plants.drivers.transport import Transport
    from servonode.plants.plant import Plant

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


def _remarks(stated: Stated, machine: Machine, start: Array) -> list[str]:
    from servonode.plants.drivers.safe_map import safe_remarks

    return safe_remarks(machine, start, stated.device["sends"] == "readings")


def _transport(stated: Stated) -> "Transport":
    from servonode.plants.drivers.serial_transport import SerialTransport

    device = stated.device
    return SerialTransport(device["port"], device["baud"])


def _open(context: DriverContext) -> "Plant":
    return packet_plant(context, _transport(context.stated))


def _traffic(stated: Stated, machine: Machine, n_goal: int, n_sensors: int) -> "Traffic":
    from servonode.plants.drivers.line_traffic import traffic_of

    return traffic_of(stated, stated.device, machine, stated.device["baud"], n_goal, n_sensors)


DRIVER = Driver(
    name="serial",
    summary="a microcontroller on a serial port",
    reads=("actuator.limit", "device.port", "device.baud", *KEYS),
    open=_open,
    readonly=True,
    outside=True,
    check=_check,
    ready=_ready,
    remarks=_remarks,
    transport=_transport,
    traffic=_traffic,
)
