"""A microcontroller as a plant: `DevicePlant` over packets."""

from dataclasses import replace

from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink, machine_start


def packet_plant(context: DriverContext) -> DevicePlant:
    """The plant of a run; nothing is opened yet."""
    assert context.transport is not None
    transport, machine = context.transport(context.stated), context.machine
    terms = replace(context.terms, resolution=RESOLUTION)
    sensors = terms.estimate.sensors if terms.estimate else ()
    link = PacketLink(
        transport, machine, machine_start(machine, terms), context.clock, terms.law, sensors, context.state_every
    )
    return DevicePlant(machine, link, terms, context.clock, context.plausible)
