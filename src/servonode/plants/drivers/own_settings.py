"""The settings of a driver, [plant.device.settings], read into the struct that the driver defines."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import fields

from servonode.errors import did_you_mean
from servonode.plants.drivers.driver import Driver, DriverError

SECTION = "plant.device.settings"


def own_settings(driver: Driver, table: Mapping[str, Any]) -> msgspec.Struct | None:
    """The driver's settings in a launch file, with defaults; None for a driver without keys of its own.

    Raises:
        DriverError: an unknown key, one that is missing, a value that is not of its type or out of its bounds.
    """
    if driver.settings is None:
        return None
    known = {field.name: field for field in fields(driver.settings)}
    for name in table:
        if name not in known:
            near = did_you_mean(name, known)
            raise DriverError(SECTION, name, f"unknown key of driver {driver.name}; {near}choose {', '.join(known)}")
    values = {}
    for name, field in known.items():
        if name not in table:
            if field.required:
                raise DriverError(SECTION, name, f"missing; driver {driver.name} needs it")
            continue
        try:
            values[name] = msgspec.convert(table[name], field.type)
        except msgspec.ValidationError as error:
            what = str(error)[:1].lower() + str(error)[1:]
            raise DriverError(
                SECTION, name, f"{table[name]!r} cannot be taken by driver {driver.name}: {what}"
            ) from None
    return driver.settings(**values)
