"""Drivers: how the plant node reaches a machine, a file each and its name in the table; wings add more."""

from servonode import extensions

DRIVERS: dict[str, object] = {  # references, or a driver itself; a driver is imported when it is asked for
    "simulated": "servonode.plants.drivers.driver:SIMULATED",
    "loopback": "servonode.plants.drivers.loopback:DRIVER",
    "external": "servonode.plants.drivers.external:DRIVER",
    "serial": "servonode.plants.drivers.serial:DRIVER",
    "udp": "servonode.plants.drivers.udp:DRIVER",
    "can": "servonode.plants.drivers.can:DRIVER",
}


def our_names() -> list[str]:
    """The names of the drivers that come with servonode, wings included; nothing is imported."""
    return sorted({*DRIVERS, *extensions.of_wings("drivers")})


def driver_names() -> list[str]:
    """The names of all drivers, those of other packages and broken ones too; nothing is imported."""
    return sorted({*DRIVERS, *extensions.names("drivers")})
