"""The plants of drivers whose machine speaks the packets of docs/reference/firmware.md."""

from dataclasses import replace

from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.transport import Transport
from servonode.plants.plant import Plant

KEYS = tuple(f"device.{key}" for key in ("wait", "timeout", "any_speed", "sends", "state_rate", "law", "law_tolerance"))


def packet_plant(context: DriverContext, transport: Transport) -> Plant:
    """The plant of a run over this transport; nothing is opened yet."""
    from servonode.plants.drivers.device import DevicePlant  # imported here, because not every run needs packets
    from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink

    sensors = context.estimate.sensors if context.estimate else ()
    link = PacketLink(
        transport, context.machine, context.start, context.clock, context.law, sensors, context.state_every
    )
    return DevicePlant(replace(context, resolution=RESOLUTION), link)
