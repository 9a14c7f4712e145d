"""Drivers: machines behind a link, on the plant contract. One function for each `driver` of a launch file."""

import time

from servonode.bus import ExternalLink
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.device import Clock, DevicePlant, Terms, terms_of
from servonode.plants.drivers.impairments import Impairments
from servonode.plants.drivers.loopback import LoopbackLink
from servonode.plants.drivers.simulated_device import Workings
from servonode.plants.plausible import Plausible

__all__ = ["DevicePlant", "Impairments", "Terms", "Workings", "external_plant", "loopback_plant", "terms_of"]


def external_plant(
    machine: Machine,
    terms: Terms,
    state_address: str,
    applied_address: str,
    clock: Clock = time.monotonic_ns,
    plausible: Plausible | None = None,
) -> DevicePlant:
    """A machine that is another process: it publishes at the one address and hears us at the other."""
    return DevicePlant(machine, ExternalLink(state_address, applied_address), terms, clock, plausible)


def loopback_plant(
    machine: Machine,
    terms: Terms,
    workings: Workings,
    impairments: Impairments | None = None,
    seed: int = 0,
    clock: Clock = time.monotonic_ns,
    plausible: Plausible | None = None,
) -> DevicePlant:
    """A simulated machine in this process, behind an unreliable link; `seed` is the link's."""
    link = LoopbackLink(machine, workings, impairments or Impairments(), seed, clock)
    return DevicePlant(machine, link, terms, clock, plausible)
