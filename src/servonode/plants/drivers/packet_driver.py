"""Drivers whose machine speaks the packets of docs/reference/firmware.md, over a transport of their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import Driver, DriverContext, Stated
from servonode.plants.plant import Plant

if TYPE_CHECKING:  # what opens or judges a link is imported where that is done: not every run needs packets
    from servonode.plants.drivers.line_traffic import Line, Traffic
    from servonode.plants.drivers.transport import Transport

KEYS = tuple(f"device.{key}" for key in ("wait", "timeout", "any_speed", "sends", "state_rate", "law", "law_tolerance"))


def packet_driver(
    name: str,
    summary: str,
    reads: tuple[str, ...],
    transport: "Callable[[Stated], Transport]",
    said: Callable[[Stated], list[str]] = lambda _: [],
    line: "Callable[[Stated], Line | None]" = lambda _: None,
    **more: Any,
) -> Driver:
    """A driver over this transport.

    reads: its own keys; said: its own remarks; line: over which packets go; more: further fields of `Driver`.
    """

    def open_plant(context: DriverContext) -> Plant:
        from servonode.plants.drivers.device import DevicePlant
        from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink

        sensors = context.estimate.sensors if context.estimate else ()
        link = PacketLink(
            transport(context.stated), context.machine, context.start, context.clock, context.law, sensors,
            context.state_every,
        )  # fmt: skip
        return DevicePlant(replace(context, resolution=RESOLUTION), link)

    def remarks(stated: Stated, machine: Machine, start: Array) -> list[str]:
        from servonode.plants.drivers.safe_map import safe_remarks

        return [*said(stated), *safe_remarks(machine, start, stated.device["sends"] == "readings")]

    def traffic(stated: Stated, machine: Machine, n_goal: int, n_sensors: int) -> "Traffic":
        from servonode.plants.drivers.line_traffic import traffic_of

        return traffic_of(stated, machine, line(stated), n_goal, n_sensors)

    return Driver(
        name, summary, ("actuator.limit", *reads, *KEYS), open_plant, readonly=True, outside=True, remarks=remarks,
        transport=transport, traffic=traffic, **more,
    )  # fmt: skip
