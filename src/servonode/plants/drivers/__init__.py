"""Drivers: how the plant node reaches a machine, a file each and its name in the table; wings add more."""

from servonode.plants.drivers import can, external, loopback, serial, udp
from servonode.plants.drivers.driver import Driver

SIMULATED = Driver(
    name="simulated",
    summary="a simulation",
    reads=("actuator", "sensor", "disturbance"),
    open=lambda context: context.simulation(),
    simulated=True,
    readonly=True,
    speeds=True,
)
_MODULES = (loopback, external, serial, udp, can)
DRIVERS: dict[str, Driver] = {each.name: each for each in (SIMULATED, *(module.DRIVER for module in _MODULES))}
