"""The open bus of `servonode run --telemetry`: its address is bound, its process started beside the run."""

import contextlib
import os
import socket
from collections.abc import Iterator

from servonode.bus import Status, run_path
from servonode.errors import ServonodeError
from servonode.nodes.node_process import ProcessBeside, Progress
from servonode.nodes.node_processes import say
from servonode.operator.find_runs import find_runs
from servonode.views.display import fresh

BACKLOG = 64  # connections that wait to be accepted
MODULE = "servonode.operator.telemetry"


class AddressTaken(ServonodeError, RuntimeError):
    """Another process serves the address of the telemetry; the text says which run, where that is known."""


@contextlib.contextmanager
def with_telemetry(address: str | None, name: str, line: Progress) -> Iterator[Progress]:
    """The function for a launcher to call with each status, while a run's telemetry is published; without address not.

    Raises:
        AddressTaken: nothing has been started then.
    """
    if address is None:
        yield line
        return
    with bound(address) as listening:
        handle = listening.fileno()
        words = (name, str(run_path(name)), str(os.getpid()), str(handle))
        process = ProcessBeside("telemetry", fresh(MODULE, *words), (handle,), ends=True)
        process.start()
    alive = True

    def progress(status: dict[str, Status]) -> None:
        nonlocal alive
        if alive and not process.look():
            alive = False
            say(f"the telemetry at {address} has ended early; the run continues without")
        line(status)

    try:
        yield progress
    finally:
        process.leave()


def bound(address: str) -> socket.socket:
    """A socket that listens at an address."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    opened = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a run before may linger
    try:
        opened.bind((host.strip("[]").replace("localhost", "127.0.0.1"), int(port)))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        problem = f"{address} cannot be bound ({error.strerror})"
        holder = next((run for run, found in find_runs().items() if found.registry.get("telemetry") == address), None)
        who = f"run {holder!r} publishes there" if holder else "a viewer that binds, or another program, is there"
        other = f"tcp://{host}:{int(port) + 1 if int(port) < 65535 else int(port) - 1}"
        raise AddressTaken(f"telemetry: {problem}: {who}; stop that, or give another: --telemetry {other}") from None
    return opened
