"""The CAN driver: the machine is a microcontroller on a CAN bus, which speaks docs/reference/firmware.md."""

from typing import TYPE_CHECKING

from servonode.plants.drivers.driver import DriverError, Stated, check_pace
from servonode.plants.drivers.packet_driver import packet_driver

if TYPE_CHECKING:  # imported when a bus is opened or judged
    from servonode.plants.drivers.line_traffic import Line
    from servonode.plants.drivers.transport import Transport

SECTION = "plant.device"


def _check(stated: Stated) -> None:
    """Refuse a missing channel, equal identifiers, and a speed that hardware cannot have."""
    device = stated.device
    if not device["channel"]:
        raise DriverError(SECTION, "channel", "missing; name the CAN bus, such as can0 (ip -brief link show type can)")
    if device["id_to"] == device["id_from"]:
        text = f"{device['id_to']:#x} is that of both directions; give the frames to the machine and from it two"
        raise DriverError(SECTION, "id_to", text)
    check_pace(stated)


def _ready(stated: Stated) -> None:
    from servonode.plants.drivers.can_transport import extra_problem

    del stated
    if problem := extra_problem():
        raise DriverError(SECTION, "interface", problem)


def _said(stated: Stated) -> list[str]:
    """Who else can reach the machine."""
    return [f"every node of the CAN bus {stated.device['channel']} can move the machine or lie about its state"]


def _transport(stated: Stated) -> "Transport":
    from servonode.plants.drivers.can_transport import CanTransport

    device = stated.device
    return CanTransport(device["interface"], device["channel"], device["bitrate"], device["id_to"], device["id_from"])


def _line(stated: Stated) -> "Line":
    from servonode.plants.drivers.line_traffic import can_bus

    return can_bus(stated.device["bitrate"])


DRIVER = packet_driver(
    "can",
    "a microcontroller on a CAN bus",
    tuple(f"device.{key}" for key in ("interface", "channel", "bitrate", "id_to", "id_from")),
    _transport,
    _said,
    line=_line,
    check=_check,
    ready=_ready,
)
