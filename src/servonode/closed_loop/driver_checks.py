"""Checks of a launch file against its driver, and of the addresses of an external plant."""

import errno
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict, fields

from servonode.bus.run_folder import BusError
from servonode.closed_loop.launch_file import LaunchError, worded
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.mechanics.machine import Machine
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import Array, Driver, Stated
from servonode.plants.drivers.installed import find_driver, origins
from servonode.plants.drivers.own_settings import own_settings

if TYPE_CHECKING:
    from servonode.plants.drivers.line_traffic import Traffic

CONNECT_S = 1.0
PASSED_OVER = "device"  # where a machine is met, which the rehearsal of its launch file does not need


def check_driver(launch: LaunchFile) -> None:
    """Refuse what the launch file specifies and its driver would pass over, and what the driver cannot take.

    Raises:
        LaunchError: such as link faults without a loopback, imperfections or disturbances of a machine that has its
            own, an address that is not on this computer, a speed that hardware does not have.
    """
    with worded(launch.file, "plant", "driver"):
        unread = list(_unread(launch))
    for table, key, text in unread:
        if table != PASSED_OVER:
            raise LaunchError(launch.file, f"plant.{table}", key, f"{text}; change that, or leave it out")
    with worded(launch.file, "plant", "driver"):
        find_driver(launch.plant.driver).check(stated(launch))


def stated(launch: LaunchFile) -> Stated:
    """What the launch file specifies for its driver.

    Raises:
        DriverError: there is no such driver, or it cannot take its own keys.
    """
    run, plant = launch.run, launch.plant
    device, link, mujoco = asdict(plant.device), asdict(plant.link), asdict(plant.mujoco)
    own = own_settings(find_driver(plant.driver), plant.device.settings)
    step_s, period_s = launch.step_ns / 1e9, (launch.period_ns or 0) / 1e9
    return Stated(run.mode == "lockstep", run.speed, device, link, step_s, period_s, mujoco, own)


def _unread(launch: LaunchFile) -> Iterator[tuple[str, str, str]]:
    """Table and key of [plant] for each that is given and that only other drivers read, with a sentence."""
    own = find_driver(launch.plant.driver)
    for table in dict.fromkeys(each.partition(".")[0] for driver in DRIVERS.values() for each in driver.reads):
        for key in _stated_keys(getattr(launch.plant, table)):
            others = [f'"{each.name}"' for each in DRIVERS.values() if each.uses(table, key)]
            if others and not own.uses(table, key):
                yield table, key, f'is for driver = {" or ".join(others)}, and [plant] has driver = "{own.name}"'
    if launch.plant.device.settings and own.settings is None:
        yield "device", "settings", f'is for a driver with keys of its own, and [plant] has driver = "{own.name}"'


def _stated_keys(table: Struct | dict[str, object]) -> list[str]:
    """The keys of a table that are not at their defaults."""
    if isinstance(table, dict):
        return list(table)
    return [field.name for field in fields(table) if getattr(table, field.name) != field.default]


def known_drivers() -> dict[str, dict[str, str]]:
    """All drivers by name: `summary` and `origin`, or `error` and `origin` where an installed package is broken."""
    return {
        name: {
            "summary" if isinstance(each, Driver) else "error": str(getattr(each, "summary", each)),
            "origin": origin,
        }
        for name, (origin, each) in origins().items()
    }


def driver_addresses(launch: LaunchFile, machine: str) -> tuple[str, ...]:
    """The addresses at which an external plant of this name publishes its states and receives inputs; else none.

    Raises:
        LaunchError: an address is absent and the machine's name gives none that can be used, or both are the same.
    """
    with worded(launch.file, "plant", "driver"):
        return find_driver(launch.plant.driver).addresses(stated(launch), machine)


def remarks(launch: LaunchFile, machine: Machine, start: Array) -> list[str]:
    """A sentence for each address that others can reach, each limit of the driver, each key that is not used."""
    from servonode.bus import exposure

    addresses = driver_addresses(launch, machine.description.name)
    found = [text for address in addresses if (text := exposure(address))]
    found += find_driver(launch.plant.driver).remarks(stated(launch), machine, start)
    return found + [f"plant.{table}.{key} is not used: it {text}" for table, key, text in _unread(launch)]


def traffic(launch: LaunchFile, machine: Machine, n_goal: int) -> "Traffic | None":
    """The traffic of a run with a machine that speaks packets; None: it does not, or time stands still for it.

    n_goal: entries of the goal for a law in the machine's firmware; 0: it has none.
    """
    driver = find_driver(launch.plant.driver)
    if driver.traffic is None or launch.run.mode == "lockstep":
        return None
    used = launch.estimator.sensors if launch.estimator else None
    n_sensors = len(machine.description.sensors if used is None else used)
    return driver.traffic(stated(launch), machine, n_goal, n_sensors)


def check_traffic(launch: LaunchFile, machine: Machine, n_goal: int) -> int:
    """Plant steps between two states of the machine, 0 where it chooses; LaunchError where its line is too slow."""
    found = traffic(launch, machine, n_goal)
    if found is not None and (problem := found.problem()):
        raise LaunchError(launch.file, "plant.device", "baud", problem)
    return found.state_every if found else 0


def check_free(launch: LaunchFile, machine: str) -> None:
    """Refuse to start where the machine cannot be reached: a serial port is missing, or another process serves the
    address at which servonode is to publish.

    Raises:
        LaunchError, BusError: that is so.
    """
    with worded(launch.file, "plant", "driver"):
        find_driver(launch.plant.driver).ready(stated(launch))
    ours = driver_addresses(launch, machine)[-1:]
    if ours and _is_taken(ours[0]):
        text = f"{launch.file} [plant.device] applied: {ours[0]} is in use by another process, such as another run"
        raise BusError(f"{text}; stop that process, or give this run other addresses")


def _is_taken(address: str) -> bool:
    """Whether somebody listens at an address, which is a good one; nothing else is disturbed by asking."""
    if address.startswith("ipc://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(CONNECT_S)
            try:
                probe.connect(address.removeprefix("ipc://"))
            except OSError:  # what a dead process left may be taken; of anything else the plant node speaks
                return False
            return True
    host = urlsplit(address).hostname or ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as ZeroMQ does; what has ended does not count
        try:
            probe.bind((host, urlsplit(address).port or 0))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
