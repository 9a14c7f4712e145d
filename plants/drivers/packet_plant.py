"""A microcontroller as a plant: `DevicePlant` over packets."""

from dataclasses import replace

from servonode.mechanics.machine import Machine
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.packet_link import RESOLUTION, PacketLink, Transport, machine_start


def packet_plant(context: DriverContext, transport: Transport) -> DevicePlant:
    """The plant of a run; nothing is opened yet."""
    machine: Machine = context.machine
    terms = replace(context.terms, resolution=RESOLUTION)
    link = PacketLink(transport, machine, machine_start(machine, terms), context.clock, terms.law)
    return DevicePlant(machine, link, terms, context.clock, context.plausible)
