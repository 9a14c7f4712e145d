"""The path of a Unix socket: whether it is served, and what a killed process left there."""

import contextlib
import socket
from pathlib import Path

from servonode.bus.run_folder import BusError

CONNECT_S = 1.0  # s, to learn whether an endpoint is alive


def is_served(path: Path) -> bool:
    """Whether a process listens at the path."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        probe.connect(str(path))
        return True
    return False


def clear_path(address: str, path: Path) -> None:
    """Remove what a killed process left at the path; BusError if another process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            pass
        except OSError as error:
            raise BusError(f"{address} cannot be used ({error}); remove that file") from None
        else:
            raise BusError(f"{address} is served already, by another node of this name; stop it or rename this one")
    path.unlink(missing_ok=True)
