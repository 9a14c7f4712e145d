"""What a launch file states must be for its driver; where a machine outside is met, and that the place is free."""

import errno
import socket
from urllib.parse import urlsplit

from servonode.bus.run_folder import BusError
from servonode.closed_loop.launch_file import LaunchError
from servonode.closed_loop.launch_keys import Actuator, LaunchFile, Link, Sensor

CONNECT_S = 1.0


def check_driver(launch: LaunchFile) -> None:
    """Refuse what the launch file states and its driver would pass over.

    Raises:
        LaunchError: link faults without a loopback, imperfections or disturbances of a machine that has its own,
            an address that is not on this computer, a speed that hardware does not have.
    """
    from servonode.bus import check_address

    plant = launch.plant
    if plant.driver != "loopback" and plant.link != Link():
        text = f'is the loopback\'s; set driver = "loopback" in [plant], which is "{plant.driver}", or leave it out'
        raise LaunchError(launch.file, "plant.link", None, text)
    if plant.driver != "external":
        return
    own = {
        "plant.sensor": plant.sensor != Sensor(),
        "plant.actuator": plant.actuator != Actuator(limit=plant.actuator.limit),
        "plant.disturbance": bool(plant.disturbance),
    }
    for section, stated in own.items():
        if stated:
            text = "belongs to a simulation; an external machine has its own, leave it out (limit alone may stay)"
            raise LaunchError(launch.file, section, None, text)
    for key in ("state", "applied"):
        address = getattr(plant.device, key)
        problem = None if address is None else check_address(address)
        if problem:
            raise LaunchError(launch.file, "plant.device", key, problem)
    speed = launch.run.speed
    if launch.run.mode == "realtime" and speed != 1 and not plant.device.any_speed:
        text = f"{speed:g} is not the pace of an external machine if it is hardware; take 1, or for a simulator say so"
        raise LaunchError(launch.file, "run", "speed", f"{text} with plant.device.any_speed = true")


def external_addresses(launch: LaunchFile, machine: str) -> tuple[str, ...]:
    """Where the external machine of this name publishes its states and hears what is applied; none of another driver.

    Raises:
        LaunchError: an address is absent and the machine's name gives none that can be used, or both are the same.
    """
    from servonode.bus import BusError, check_address, device_addresses

    if launch.plant.driver != "external":
        return ()
    device = launch.plant.device
    stated = {"state": device.state, "applied": device.applied}
    missing = [key for key, address in stated.items() if address is None]
    if missing:
        try:
            usual = dict(zip(stated, device_addresses(machine), strict=True))
        except BusError as error:
            text = f"missing, and {error}; give an address such as ipc:///PATH"
            raise LaunchError(launch.file, "plant.device", missing[0], text) from None
        for key in missing:
            if problem := check_address(usual[key]):
                text = f"missing, and {problem.partition(';')[0]}; give one, or set XDG_RUNTIME_DIR to a shorter folder"
                raise LaunchError(launch.file, "plant.device", key, text)
            stated[key] = usual[key]
    addresses = tuple(address for address in stated.values() if address is not None)
    if len(set(addresses)) == 1:
        text = f"{addresses[0]!r} cannot serve states and inputs; give the machine a second address"
        raise LaunchError(launch.file, "plant.device", "applied", text)
    return addresses


def exposures(launch: LaunchFile, machine: str) -> list[str]:
    """A sentence for each address of an external machine that others on this computer can reach."""
    from servonode.bus import exposure

    return [text for address in external_addresses(launch, machine) if (text := exposure(address))]


def check_free(launch: LaunchFile, machine: str) -> None:
    """Refuse to start where another process already serves the address at which servonode is to publish.

    Raises:
        BusError: it is taken.
    """
    addresses = external_addresses(launch, machine)
    if addresses and _is_taken(address := addresses[-1]):
        text = f"{launch.file} [plant.device] applied: {address} is taken by another process, such as another run"
        raise BusError(f"{text}; stop that one, or give this run addresses of its own")


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
