"""Drivers: the ways in which the plant node reaches a machine, one file each and its name in the table."""

from servonode.plants.drivers import external, loopback, serial, simulated, udp
from servonode.plants.drivers.driver import Driver

DRIVERS: dict[str, Driver] = {each.DRIVER.name: each.DRIVER for each in (simulated, loopback, external, serial, udp)}
