"""The runs that `hostile.py` floods: with a machine over tcp with keys, and on two computers, both of them this one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import zmq

from servonode.bus import BusError, Requester
from servonode.bus.keys import KeyStore
from servonode.bus.run_folder import REGISTRY, folder_name
from servonode.bus.topology import PLANT, RELAY

sys.path.append(str(Path(__file__).parents[1]))  # for the floods, which the tests state
from tests.helpers.hostile import TO_MACHINE, TO_RELAY, Flood, Place, attacker, recorded
from tests.helpers.ports import free_port

ROBOT = Path(__file__).parents[1] / "examples" / "external_plant.py"
START_S, END_S = 30.0, 10.0
TRIED = 500  # connections with a key before it is revoked
SETTINGS = ("run.speed=1", "run.duration=3600", "plant.safety.command_timeout=10", "plant.safety.lateness_limit=10")


class FloodedRun:
    """A run in processes, each part of it with keys and a runtime folder of its own. A context manager that ends it.

    floods: what it is flooded with, by name; place: where; bags: the recordings of its parts.
    """

    node = PLANT  # whose memory and refusals are looked at
    floods: dict[str, tuple[Flood, float]] = TO_MACHINE
    first = (zmq.XSUB, b"\x01")  # with which a client is told something

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.bags: list[Path] = []
        names = ("desk", "robot", "watcher", "former")
        self._stores = {name: KeyStore(folder / name) for name in names}
        self._keys = {name: store.new(name) for name, store in self._stores.items()}
        ports = free_port(), free_port()
        self._addresses = [f"tcp://127.0.0.1:{port}" for port in ports]
        self.place = Place(ports[1], self._stores[self._here()].pair().public, {})
        self._trust()

    def _here(self) -> str:
        """The computer whose address is flooded."""
        return "desk"

    def _trust(self) -> None:
        """Have the computers trust each other, and the one that is flooded some others."""
        desk = self._stores["desk"]
        desk.trust(self._keys["robot"], ["plant"])
        desk.trust(self._keys["watcher"], ["controller"])
        desk.trust(self._keys["former"], ["plant"])
        self._pairs(known="robot", wrong="watcher")

    def _pairs(self, known: str, wrong: str) -> None:
        pairs = {"known": known, "other role": wrong, "revoked": "former"}
        found = {word: self._stores[name].pair() for word, name in pairs.items()}
        self.place = replace(self.place, pairs={word: (each.public, each.secret) for word, each in found.items()})

    def _start(self) -> None:
        """Start the machine and the run."""
        state, applied = self._addresses
        keys = ["--keys", str(self._keys["robot"].with_suffix(".key_secret")), str(self._keys["desk"])]
        self._processes.append(subprocess.Popen([sys.executable, str(ROBOT), state, applied, *keys]))
        device = (f'plant.device.state="{state}"', f'plant.device.applied="{applied}"', 'plant.device.key="robot"')
        settings = ("plant.device.timeout=10", "controller.period=0.002", "plant.publish_every=2", *device)
        self._run("desk", "trailer_pursuit_external", settings, "--arm")

    def _run(self, computer: str, launch: str, settings: tuple[str, ...], *words: str) -> None:
        """Start a part of the run on a computer."""
        runtime = self._folder / f"run_{computer}"
        runtime.mkdir(mode=0o700)
        self.bags.append(self._folder / f"{computer}.mcap")
        given = [word for each in (*SETTINGS, *settings) for word in ("--set", each)]
        command = [sys.executable, "-m", "servonode.cli.main", "run", launch, "--no-report", "--name", "hostile"]
        environment = os.environ | {
            "SERVONODE_KEYS": str(self._stores[computer].folder), "SERVONODE_RUNTIME_DIR": str(runtime),
        }  # fmt: skip
        with (self._folder / f"{computer}.stderr").open("w") as errors:
            self._processes.append(subprocess.Popen(
                [*command, "--record", str(self.bags[-1]), *given, *words], env=environment,
                stdout=subprocess.DEVNULL, stderr=errors,
            ))  # fmt: skip

    def __enter__(self) -> "FloodedRun":
        try:
            self._start()
            self._wait_active()
            self.place = replace(self.place, replayed=recorded(self.place, *self.first))
            with attacker("revoked key", self.place) as (_, sent):  # so that its name is known when it is revoked
                while sent.value < TRIED:
                    time.sleep(0.1)
            self._stores[self._here()].revoke("former")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_active(self) -> None:
        end = time.monotonic() + START_S
        while not self.active():
            if time.monotonic() > end:
                raise SystemExit(f"the run has not become active within {START_S:g} s: {self.said()}")
            time.sleep(0.1)

    def said(self) -> str:
        """The last lines that the parts of the run have printed."""
        lines = {each.stem: each.read_text().splitlines()[-5:] for each in self._folder.glob("*.stderr")}
        return "".join(f"\n{computer}: {line}" for computer, each in lines.items() for line in each)

    def __exit__(self, *_: object) -> None:
        for each in reversed(self._processes):
            each.send_signal(signal.SIGINT)
        for each in self._processes:
            with suppress(subprocess.TimeoutExpired):
                each.wait(END_S)
            each.kill()
            each.wait()

    def _path(self) -> Path:
        """The run's folder on the computer that is flooded."""
        return self._folder / f"run_{self._here()}" / folder_name("hostile")

    def _ask(self, node: str) -> dict[str, Any]:
        """The status of a node; empty: it does not answer."""
        with suppress(BusError, TimeoutError), Requester(self._path(), node) as requester:
            return requester.ask({"ask": "status"}, 2.0)
        return {}

    def active(self) -> bool:
        """Whether commands reach the machine."""
        return self._ask(PLANT).get("lifecycle") == "active"

    def counts(self) -> Counter[str]:
        """What the node that is flooded has counted."""
        return Counter(self._ask(self.node).get("counts", {}))

    def memory_mb(self) -> float:
        """Resident memory of that node's process; 0: it has ended."""
        with suppress(OSError):
            pid = json.loads((self._path() / REGISTRY).read_text())["pids"][self.node]
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        return 0.0


class TwoComputers(FloodedRun):
    """The plant on a robot, controller and target on a desk; the relay of the robot is flooded."""

    node = RELAY
    floods = TO_RELAY
    first = (zmq.DEALER, b"x")

    def _here(self) -> str:
        return "robot"

    def _trust(self) -> None:
        desk, robot = self._stores["desk"], self._stores["robot"]
        desk.trust(self._keys["robot"], ["plant"])
        robot.trust(self._keys["desk"], ["controller", "operate"])
        robot.trust(self._keys["watcher"], ["observe"])
        robot.trust(self._keys["former"], ["observe"])
        self._pairs(known="watcher", wrong="watcher")

    def _start(self) -> None:
        hosts = (f'hosts.plant="{self._addresses[1]}"', 'hosts.key="robot"')
        settings = ("controller.period=0.005", "plant.publish_every=5", *hosts)
        self._run("robot", "trailer_pursuit", settings, "--on", "127.0.0.1")
        self._run("desk", "trailer_pursuit", settings)
