"""Drivers: the ways in which the plant node reaches a machine, one file each and its name in the table."""

from servonode.plants.drivers import external, loopback, mujoco, serial, simulated, udp
from servonode.plants.drivers.driver import Driver

_MODULES = (simulated, loopback, mujoco, external, serial, udp)
DRIVERS: dict[str, Driver] = {each.DRIVER.name: each.DRIVER for each in _MODULES}
