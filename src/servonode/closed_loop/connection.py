"""The connection to a machine: a launch file's driver, and what the file states for it."""

import errno
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec.structs import asdict

from servonode.arrays import Array
from servonode.bus.run_folder import BusError
from servonode.closed_loop.added_sections import beyond_defaults
from servonode.closed_loop.launch_error import KeyRefused, LaunchError, naming_file, stated_in
from servonode.closed_loop.launch_keys import LaunchFile, Plant, Run, Times
from servonode.mechanics.machine import Machine
from servonode.plants.drivers.driver import Driver, Stated, own_settings
from servonode.plants.drivers.installed import find_driver, origins, our_drivers
from servonode.plants.keys import AddedSection

if TYPE_CHECKING:
    from servonode.plants.drivers.transport import Traffic

CONNECT_S = 1.0
OF_DRIVERS = ("actuator", "sensor", "disturbance", "device", "link")  # the tables of [plant] that drivers read
OF_PLANT = "plant."  # before the name of a section that is added to [plant]
PASSED_OVER = "device"  # where a machine is met, which the rehearsal of its launch file does not need


@dataclass(frozen=True)
class Connection:
    """How a launch file's driver reaches the machine. What it refuses is a LaunchError of that file."""

    file: str
    plant: Plant
    run: Run
    times: Times
    more: Mapping[str, AddedSection]

    @property
    def driver(self) -> Driver:
        return find_driver(self.plant.driver)

    @property
    def stated(self) -> Stated:
        """What the launch file specifies for its driver.

        Raises:
            LaunchError: the driver cannot take its own keys.
        """
        run, device = self.run, self.plant.device
        link, times = asdict(self.plant.link), self.times
        with naming_file(self.file), stated_in("plant", "driver"):
            own = own_settings(self.driver, device.settings)
        return Stated(run.mode == "lockstep", run.speed, asdict(device), link, times.step, times.period, self.more, own)

    def check(self) -> None:
        """Refuse what the launch file specifies and its driver would pass over, and what the driver cannot take.

        Raises:
            LaunchError: such as link faults without a loopback, imperfections or disturbances of a machine that has
                its own, an address that is not on this computer, a speed that hardware does not have.
        """
        with naming_file(self.file), stated_in("plant", "driver"):
            for table, key, text in self._unread():
                if table != PASSED_OVER:
                    raise KeyRefused(f"plant.{table}", key, f"{text}; change that, or leave it out")
            self.driver.check(self.stated)

    def _unread(self) -> Iterator[tuple[str, str, str]]:
        """Table and key of [plant] for each that is given and that only other drivers read, with a sentence."""
        own = self.driver
        tables: dict[str, Any] = {name: getattr(self.plant, name) for name in OF_DRIVERS}
        tables |= {name.removeprefix(OF_PLANT): each for name, each in self.more.items() if name.startswith(OF_PLANT)}
        for table, stated in tables.items():
            for key in stated if isinstance(stated, dict) else beyond_defaults(stated):
                others = () if own.uses(table, key) else our_drivers().values()
                if names := [f'"{each.name}"' for each in others if each.uses(table, key)]:
                    yield table, key, f'is for driver = {" or ".join(names)}, and [plant] has driver = "{own.name}"'
        if self.plant.device.settings and own.settings is None:
            yield "device", "settings", f'is for a driver with keys of its own, and [plant] has driver = "{own.name}"'

    def addresses(self, machine: str) -> tuple[str, ...]:
        """The addresses at which an external plant of this name publishes its states and receives inputs; else none.

        Raises:
            LaunchError: an address is absent and the machine's name gives none that can be used, or both are the same.
        """
        with naming_file(self.file), stated_in("plant", "driver"):
            return self.driver.addresses(self.stated, machine)

    def is_local(self, machine: str) -> bool:
        """Whether only this computer can reach the addresses at which the machine of this name is met."""
        from servonode.bus.link import port_of

        return all(port_of(each) for each in self.addresses(machine) if each.startswith("tcp://"))

    def check_keys(self, machine: str, own_key: str, insecure: bool, needless: bool = True) -> None:
        """Refuse tcp addresses without keys, unless the run is to be insecure, and keys that cannot be used.

        needless: whether nothing else of the run may be insecure.

        Raises:
            LaunchError, KeyFileError: that is so.
        """
        found = [each for each in self.addresses(machine) if each.startswith("tcp://")]
        key = self.plant.device.key
        problem = ""
        if insecure and key:
            problem = f"{key!r} is given, and --insecure too; leave out one of them"
        elif insecure and needless and not found:
            problem = "not needed, because no address of the machine is tcp; leave out --insecure"
        elif found and not key and not insecure:
            problem = (
                f"missing: whoever reaches {found[0]} could be the machine, or command it; make and trust keys "
                "(servonode keys), or on a closed bench network run it with --insecure"
            )
        if problem:
            raise LaunchError(self.file, "plant.device", "key", problem)
        if key:
            from servonode.bus.curve import PLANT_ROLE, Authenticator
            from servonode.bus.keys import KeyStore

            Authenticator(KeyStore(), own_key).client(key, PLANT_ROLE)

    def remarks(self, machine: Machine, start: Array) -> list[str]:
        """A sentence for each address that others can reach, each limit of the driver, each key that is not used."""
        from servonode.bus import exposure

        addresses = () if self.plant.device.key else self.addresses(machine.description.name)
        found = [text for address in addresses if (text := exposure(address))]
        found += self.driver.remarks(self.stated, machine, start)
        return found + [f"plant.{table}.{key} is not used: it {text}" for table, key, text in self._unread()]

    def traffic(self, machine: Machine, n_goal: int, n_sensors: int) -> "Traffic | None":
        """The traffic of a run with a machine that speaks packets; None: it does not, or time stands still for it.

        n_goal: entries of the goal for a law in the machine's firmware; 0: it has none. n_sensors: those in use.
        """
        if self.driver.traffic is None or self.run.mode == "lockstep":
            return None
        return self.driver.traffic(self.stated, machine, n_goal, n_sensors)

    def check_free(self, machine: str) -> None:
        """Refuse to start where the machine cannot be reached: a serial port is missing, or another process serves the
        address at which servonode is to publish.

        Raises:
            LaunchError, BusError: that is so.
        """
        with naming_file(self.file), stated_in("plant", "driver"):
            self.driver.ready(self.stated)
        ours = self.addresses(machine)[-1:]
        if ours and _is_taken(ours[0]):
            text = f"{self.file} [plant.device] applied: {ours[0]} is in use by another process, such as another run"
            raise BusError(f"{text}; stop that process, or give this run other addresses")


def connection_of(launch: LaunchFile) -> Connection:
    """The connection of a launch file to its machine."""
    return Connection(launch.file, launch.plant, launch.run, launch.times, launch.more)


def known_drivers() -> dict[str, dict[str, str]]:
    """All drivers by name: `summary` and `origin`, or `error` and `origin` where an installed package is broken."""
    return {
        name: {
            "summary" if isinstance(each, Driver) else "error": str(getattr(each, "summary", each)),
            "origin": origin,
        }
        for name, (origin, each) in origins().items()
    }


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
