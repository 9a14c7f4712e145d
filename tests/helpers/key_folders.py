"""Two computers whose keys trust each other: a desk, and a robot that is a process of its own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servonode.bus.keys import KeyStore
from servonode.bus.topology import PLANT
from tests.helpers.ports import free_port
from tests.helpers.runs import Process


class Computers:
    """The keys of a desk and of its robot, which trust each other, and where they meet."""

    def __init__(self, folder: Path) -> None:
        self.desk, self.robot = KeyStore(folder / "desk"), KeyStore(folder / "robot")
        self.desk_key, self.robot_key = self.desk.new("desk"), self.robot.new("robot")
        self.desk.trust(self.robot_key, ["plant"])
        self.state, self.applied = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        self.addresses = (f'plant.device.state="{self.state}"', f'plant.device.applied="{self.applied}"')
        self.settings = (*self.addresses, 'plant.device.key="robot"')

    @contextmanager
    def machine(self, program: list[str], own: Path, host: Path) -> Iterator["subprocess.Popen[bytes]"]:
        words = [self.state, self.applied, "--keys", str(own.with_suffix(".key_secret")), str(host)]
        process = subprocess.Popen([*program, *words])
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def descriptors_of(run: Process) -> int:
    """The number of files that the plant has open."""
    return sum(1 for _ in Path(f"/proc/{run.pids()[PLANT]}/fd").iterdir())
