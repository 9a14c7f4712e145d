"""Drivers whose machine speaks the packets of docs/reference/firmware.md, over a transport of their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import Driver, DriverContext, DriverError, Stated
from servonode.plants.drivers.line_traffic import Traffic, traffic_of
from servonode.plants.drivers.transport import Transport
from servonode.plants.plant import Plant

SECTION = "plant.device"
KEYS = tuple(f"device.{key}" for key in ("wait", "timeout", "any_speed", "sends", "state_rate", "law", "law_tolerance"))


def packet_driver(
    name: str,
    summary: str,
    reads: tuple[str, ...],
    transport: Callable[[Stated], Transport],
    said: Callable[[Stated], list[str]] = lambda _: [],
    **more: Any,
) -> Driver:
    """A driver over this transport.

    reads: its own keys, first that of the machine's place; said: its own remarks; more: further fields of `Driver`.
    """

    def open_plant(context: DriverContext) -> Plant:
        from servonode.plants.drivers.device import DevicePlant  # loads the bus
        from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink

        sensors = context.estimate.sensors if context.estimate else ()
        link = PacketLink(
            transport(context.stated), context.machine, context.start, context.clock, context.law, sensors,
            context.state_every,
        )  # fmt: skip
        return DevicePlant(replace(context, resolution=RESOLUTION), link)

    def ready(stated: Stated) -> None:
        if problem := transport(stated).problem():
            raise DriverError(SECTION, reads[0].removeprefix("device."), problem)

    def remarks(stated: Stated, machine: Machine, start: Array) -> list[str]:
        from servonode.plants.drivers.safe_map import safe_remarks

        return [*said(stated), *safe_remarks(machine, start, stated.device["sends"] == "readings")]

    def traffic(stated: Stated, machine: Machine, n_goal: int, n_sensors: int) -> Traffic:
        return traffic_of(stated, machine, transport(stated).line, n_goal, n_sensors)

    return Driver(
        name, summary, ("actuator.limit", *reads, *KEYS), open_plant, readonly=True, outside=True, ready=ready,
        remarks=remarks, transport=transport, traffic=traffic, **more,
    )  # fmt: skip
