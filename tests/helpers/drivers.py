"""What stands beside a run in a process of its own: the machine, by driver."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import zmq

from servonode.bus import Message, decode
from servonode.bus.keys import KeyStore
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from tests.helpers.external_programs import PROGRAMS
from tests.helpers.packages import WHEELS, install_wheels
from tests.helpers.ports import free_port

INSECURE = ("--insecure",)
STILL_S, LAST_S = 0.1, 0.5  # a wait for a message; how long those that are on their way are waited for
MOST = 100  # messages in that time


@dataclass(frozen=True)
class Beside:
    """What stands beside one run.

    settings: further ones; ports: of tcp, to which anybody may speak; pid: the machine's process; bound: ports and
    paths that the run itself binds beyond those of its folder; words: options of the run.
    """

    settings: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    pid: int = 0
    bound: tuple[int | str, ...] = ()
    words: tuple[str, ...] = ()


class Driver:
    """A driver under test: its name, the launch file, settings, and what must be started beside each run.

    restarts: nodes that may be started again; a plant node that estimates its state may not.
    """

    name = ""
    launch = "trailer_pursuit"
    settings: tuple[str, ...] = ()
    restarts = (CONTROLLER, PLANT, TARGET)

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        """Start what one run needs, and end it."""
        yield Beside()


class Loopback(Driver):
    name = "loopback"
    settings = ('plant.driver="loopback"', "plant.link.delay=0.0005", "plant.link.jitter=0.0005")


class Mujoco(Driver):
    name = "mujoco"
    launch = "trailer_pursuit_mujoco"


@contextmanager
def trusting() -> Iterator[tuple[str, ...]]:
    """Keys of a run and of its machine, which trust each other; the words with which the machine starts."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVONODE_KEYS", f"{folder}/desk")
        desk, robot = KeyStore(Path(folder, "desk")), KeyStore(Path(folder, "robot"))
        desk_key, robot_key = desk.new("desk"), robot.new("robot")
        desk.trust(robot_key, ["plant"])
        yield "--keys", str(robot_key.with_suffix(".key_secret")), str(desk_key)


class External(Driver):
    """The example of a robot written by hand, on tcp with keys; language: that in which it is written."""

    name = "external"
    settings = ('plant.driver="external"', "run.speed=1", "plant.safety.limit=1.0")

    def __init__(self, language: str = "python") -> None:
        self._language = language

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with trusting() as keys, self.robot(*keys) as beside:
            yield replace(beside, settings=(*beside.settings, 'plant.device.key="robot"'))

    @contextmanager
    def robot(self, *words: str) -> Iterator[Beside]:
        """The robot's process at two free ports, started with these words too."""
        ports = free_port(), free_port()
        state, applied = (f"tcp://127.0.0.1:{port}" for port in ports)
        robot = subprocess.Popen([*PROGRAMS[self._language](), state, applied, *words])
        try:
            settings = (f'plant.device.state="{state}"', f'plant.device.applied="{applied}"')
            yield Beside(settings, ports, robot.pid, ports[1:])
        finally:
            robot.kill()
            robot.wait()


class Insecure(External):
    """The same without keys, for who listens in."""

    name = "insecure"

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with self.robot() as beside:
            yield replace(beside, words=INSECURE)


class Wheels(Driver):
    """The driver of examples/driver, which docs/how_to/hardware.md explains, as an installed package."""

    name = "wheels"
    settings = ('plant.driver="wheels"', "run.speed=1", "plant.safety.limit=1.0")

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        port = free_port(socket.SOCK_DGRAM)
        with tempfile.TemporaryDirectory() as site, pytest.MonkeyPatch.context() as patch:
            install_wheels(Path(site))
            patch.setenv("PYTHONPATH", os.pathsep.join([site, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
            robot = subprocess.Popen([sys.executable, str(WHEELS / "robot.py"), str(port)])
            try:
                yield Beside((f"plant.device.settings.port={port}",), pid=robot.pid)
            finally:
                robot.kill()
                robot.wait()


@contextmanager
def listening(*addresses: str, topic: str = "") -> Iterator[list[Message]]:
    """All that is published at these addresses, in the order in which it came; all of it at the end."""
    received: list[Message] = []
    ends = threading.Event()

    def listen() -> None:
        with zmq.Context() as context, context.socket(zmq.SUB) as opened:
            for address in addresses:
                opened.connect(address)
            opened.subscribe(topic)
            left = LAST_S
            while left > 0.0:
                left -= STILL_S if ends.is_set() else 0.0
                for _ in range(MOST):
                    if not opened.poll(round(STILL_S * 1e3)):
                        break
                    received.append(decode(*opened.recv_multipart()))  # type: ignore[arg-type]

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        ends.set()
        thread.join()
