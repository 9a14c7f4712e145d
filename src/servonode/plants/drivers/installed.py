"""Drivers that other installed packages add: an entry point of the group `servonode.drivers` for each.

The drivers of servonode are found in the table; the installed packages are searched only for other names.
"""

import functools
from typing import TYPE_CHECKING

from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import Driver, DriverError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "servonode.drivers"
OURS = "servonode"  # the origin of the drivers in the table


def find_driver(name: str) -> Driver:
    """The driver of a name: one in the table, else that of an installed package, whose module is imported.

    Raises:
        DriverError: there is no such driver, or the package that has it is broken; the text names the package.
    """
    if name in DRIVERS:
        return DRIVERS[name]
    entries = _entries().get(name, ())
    if not entries:
        raise _refused(f"{name!r} is unknown; choose {', '.join(driver_names())}")
    return _loaded(name, entries)


def driver_names() -> list[str]:
    """The names of all drivers, of the table and of installed packages, broken ones too; nothing is imported."""
    return sorted({*DRIVERS, *_entries()})


def origins() -> dict[str, tuple[str, Driver | DriverError]]:
    """All drivers: name -> where it comes from, and the driver or what is wrong with it. Imports every one of them."""
    found: dict[str, tuple[str, Driver | DriverError]] = {name: (OURS, each) for name, each in DRIVERS.items()}
    for name, entries in sorted(_entries().items()):
        package = " and ".join(sorted(map(_package, entries)))
        try:
            if name in DRIVERS:
                text = f"{package}: its driver {name!r} has the name of one that comes with servonode, which is taken"
                raise _refused(f"{text} in its place; have the package rename it, or uninstall the package")
            found[name] = (package, _loaded(name, entries))
        except DriverError as error:
            found[name if name not in DRIVERS else f"{name} ({package})"] = (package, error)
    return found


@functools.cache
def _entries() -> "dict[str, tuple[EntryPoint, ...]]":
    from importlib.metadata import entry_points  # slow to import, and not needed for the drivers of the table

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for each in entry_points(group=GROUP):
        found[each.name] = (*found.get(each.name, ()), each)
    return found


def _loaded(name: str, entries: "tuple[EntryPoint, ...]") -> Driver:
    packages = sorted(_package(each) for each in entries)
    if len(entries) > 1:
        text = f"{' and '.join(packages)} both have a driver {name!r}, and only one of them can be meant"
        raise _refused(f"{text}; uninstall one of the packages")
    entry, what = entries[0], f"{packages[0]}: its driver {name!r} ({entries[0].value})"
    remedy = "repair the package, or uninstall it"
    try:
        made = entry.load()
    except (Exception, SystemExit) as error:
        raise _refused(f"{what} cannot be imported ({type(error).__name__}: {error}); {remedy}") from error
    if not isinstance(made, Driver):
        kind = type(made).__name__
        raise _refused(f"{what} is of type {kind}, not a servonode.plants.drivers.driver.Driver; {remedy}")
    if made.name != name:
        raise _refused(f"{what} calls itself {made.name!r}; entry point and Driver(name=...) must agree; {remedy}")
    return made


def _package(entry: "EntryPoint") -> str:
    return f"package {entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package without a name"


def _refused(text: str) -> DriverError:
    return DriverError("plant", "driver", text)
