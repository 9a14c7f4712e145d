"""Drivers by name: those in the table, and those that wings and other packages add."""

from servonode import extensions
from servonode.extensions import OURS, REMEDY, EntryPoint, ExtensionError
from servonode.plants.drivers import DRIVERS, driver_names
from servonode.plants.drivers.driver import Driver, DriverError

KIND = "drivers"


def find_driver(name: str) -> Driver:
    """The driver of a name: one in the table, else that of a wing or an installed package, whose module is imported.

    Raises:
        DriverError: there is no such driver, or the package that has it is broken; the text names the package.
    """
    if name in DRIVERS:
        stated = DRIVERS[name]
        return stated if isinstance(stated, Driver) else _loaded(EntryPoint(KIND, name, str(stated)))
    try:
        added = extensions.find(KIND, name)
    except ExtensionError as error:
        raise _refused(str(error)) from error
    if added is None:
        raise _refused(f"{name!r} is unknown; choose {', '.join(driver_names())}")
    return _loaded(added)


def our_drivers() -> dict[str, Driver]:
    """The drivers that come with servonode, all imported."""
    return {name: find_driver(name) for name in [*DRIVERS, *extensions.of_wings(KIND)]}


def origins() -> dict[str, tuple[str, Driver | DriverError]]:
    """All drivers: name -> where it comes from, and the driver or what is wrong with it. Imports every one of them."""
    found: dict[str, tuple[str, Driver | DriverError]] = {name: (OURS, each) for name, each in our_drivers().items()}
    for name, entries in sorted(extensions.of_packages(KIND).items()):
        package = " and ".join(sorted(each.origin for each in entries))
        taken = name in found
        try:
            if taken:
                text = f"{package}: its driver {name!r} has the name of one that comes with servonode, which is taken"
                raise _refused(f"{text} in its place; have the package rename it, or uninstall the package")
            found[name] = (package, find_driver(name))
        except DriverError as error:
            found[f"{name} ({package})" if taken else name] = (package, error)
    return found


def _loaded(entry: EntryPoint) -> Driver:
    try:
        made = entry.load(Driver)
    except ExtensionError as error:
        raise _refused(str(error)) from error
    if made.name != entry.name:
        what = f"{entry.origin}: its driver {entry.name!r} ({entry.reference}) calls itself {made.name!r}"
        raise _refused(f"{what}; entry point and Driver(name=...) must agree; {REMEDY}")
    return made


def _refused(text: str) -> DriverError:
    return DriverError("plant", "driver", text)
