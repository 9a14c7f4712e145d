"""Default addresses of an external plant: two sockets in a private folder of the user.

docs/reference/protocol.md states the rule, so that a program without servonode's code finds the same addresses.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from servonode.bus.run_folder import BusError, base_folder, private_folder, refusal_at, remove_empty

DEVICES = "devices"

_MACHINE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def device_addresses(machine: str) -> tuple[str, str]:
    """The addresses at which the machine of this name publishes its states and receives the applied inputs.

    Raises BusError for a name that cannot be part of a file's name.
    """
    if not _MACHINE_NAME.fullmatch(machine):
        raise BusError(
            f"the machine's name {machine[:40]!r} cannot be part of a socket's name; take letters, digits, _ - and ."
        )
    folder = base_folder() / DEVICES
    return f"ipc://{folder}/{machine}.state", f"ipc://{folder}/{machine}.applied"


def make_devices_folder(addresses: Iterable[str]) -> bool:
    """Make the private folder if one of the addresses lies in it; returns whether one does.

    Raises BusError if the folder belongs to somebody else or is open to others.
    """
    folder = base_folder() / DEVICES
    if not any(_path_of(address).parent == folder for address in addresses):
        return False
    private_folder(folder)
    return True


@contextlib.contextmanager
def devices_folder(addresses: Iterable[str], bound: str = "") -> Iterator[None]:
    """The private folder while a run uses it, if one of its addresses lies in it.

    Afterwards the socket at the address `bound` is removed where a killed process left it, and the folder where it is
    empty. Raises as `make_devices_folder`.
    """
    uses = make_devices_folder(addresses)
    try:
        yield
    finally:
        if uses:
            clear_devices_folder(bound)


def clear_devices_folder(bound: str = "") -> None:
    """Remove the socket at the address `bound` if it is in the folder and nobody listens; the folder if it is empty."""
    folder = base_folder() / DEVICES
    path = _path_of(bound)
    if path.parent == folder and isinstance(refusal_at(path), ConnectionRefusedError):
        path.unlink(missing_ok=True)
    remove_empty(folder)


def exposure(address: str) -> str | None:
    """Who else can reach this address, as a sentence with the remedy; None where it is private."""
    remedy = "leave plant.device.state and plant.device.applied out for private sockets"
    if address.startswith("tcp://"):
        text = f"whoever reaches {address} can be the machine, or command it: there are no keys"
        return f"{text}; give plant.device.key, or {remedy}"
    folder = _path_of(address).parent
    with contextlib.suppress(OSError):
        found = folder.stat()
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
            return f"others can put a socket of theirs at {address}, for {folder} is not private; {remedy}"
    return None


def _path_of(address: str) -> Path:
    return Path(address.removeprefix("ipc://"))
