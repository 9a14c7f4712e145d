"""The loopback driver: a simulated machine in the plant's own process, behind an unreliable link."""

from dataclasses import replace

from servonode.plants.drivers.driver import Driver, DriverContext
from servonode.plants.plant import Plant


def _open(context: DriverContext) -> Plant:
    from servonode.plants.drivers.device import DevicePlant
    from servonode.plants.drivers.link_keys import Impairments
    from servonode.plants.drivers.loopback_link import LoopbackLink

    machine, workings, clock = context.machine, context.workings, context.clock
    workings = replace(workings, sends_state=context.terms.estimate is None)
    link = LoopbackLink(machine, workings, Impairments(**context.stated.link), workings.seed, clock)
    return DevicePlant(machine, link, context.terms, clock, context.plausible)


DRIVER = Driver(
    name="loopback",
    summary="a simulation behind a faulty link",
    reads=("actuator", "sensor", "disturbance", "link", "device.wait", "device.timeout", "device.sends"),
    open=_open,
    readonly=True,
)
