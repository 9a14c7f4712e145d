"""The promises with a machine that is a process of its own: the example of a robot written by hand, on tcp."""

import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from tests.helpers.runs import SOON_S, Runs, Watch, eventually, private_runs
from tests.safety.suite import WAITS, Beside, Driver, Stage, safety_suite

ROBOT = Path(__file__).parents[2] / "examples" / "external_plant.py"


def free_ports() -> tuple[int, int]:
    """Two tcp ports that nobody uses at present."""
    with socket.socket() as first, socket.socket() as second:
        for opened in (first, second):
            opened.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


class External(Driver):
    name = "external"
    settings = ('plant.driver="external"',)

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        ports = free_ports()
        state, applied = (f"tcp://127.0.0.1:{port}" for port in ports)
        robot = subprocess.Popen([sys.executable, str(ROBOT), state, applied])
        try:
            yield Beside((f'plant.device.state="{state}"', f'plant.device.applied="{applied}"'), ports, robot.pid)
        finally:
            robot.kill()
            robot.wait()


TestExternal = safety_suite(External())


# what only a machine outside can do


class Relay(threading.Thread):
    """Passes on what a machine publishes, and between its messages others made of them."""

    def __init__(self, machine: int, here: int) -> None:
        super().__init__(daemon=True)
        self._ports = (machine, here)
        self.spoils = self.ends = False
        self.sent = 0  # false messages

    def run(self) -> None:
        rng = random.Random(21)
        with zmq.Context() as context, context.socket(zmq.SUB) as heard, context.socket(zmq.PUB) as said:
            heard.connect(f"tcp://127.0.0.1:{self._ports[0]}")
            heard.subscribe("")
            said.bind(f"tcp://127.0.0.1:{self._ports[1]}")
            while not self.ends:
                if not heard.poll(20):
                    continue
                topic, payload = heard.recv_multipart()
                for frames in false_states(payload, rng) if self.spoils else []:
                    said.send_multipart(frames)
                    self.sent += 1
                said.send_multipart([topic, payload])


def false_states(payload: bytes, rng: random.Random) -> list[list[bytes]]:
    """Messages that are no good state, each for a reason of its own."""
    good: dict[str, Any] = msgspec.msgpack.decode(payload)
    poison = dict.fromkeys(good["state"], 1e6)
    changed: list[dict[str, Any]] = [
        {"state": poison | {"X": float("nan")}},
        {"state": poison | {"X": float("inf")}},
        {"state": poison | {"X": True}},
        {"state": poison | {"more": 1.0}},
        {"state": {"X": 1e6}},
        {"state": poison | {"X": [1e6, 1e6]}},
        {"state": poison, "run": good["run"] % 2**52 + 1, "seq": good["seq"] + 1000},
        {"state": poison, "src": good["src"] % 2**52 + 1, "seq": good["seq"] + 1000},
        {"state": poison, "seq": good["seq"] - 1},
        {"state": poison, "applied_seq": good["applied_seq"] + 2**40},
    ]
    frames = [[b"state", msgspec.msgpack.encode({**good, "seq": good["seq"], **each})] for each in changed]
    noise = rng.randbytes(rng.randrange(2000))
    frames += [[b"state", noise], [b"state", payload[:-3]], [b"state", b""], [b"state", payload + b"\x00"]]
    return [*frames, [b"state"], [b"state", payload, payload], [b"stately", payload], [noise, noise]]


class Relayed(External):
    name = "relayed"
    relay: Relay

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with super().machine() as beside:
            here, _ = free_ports()
            self.relay = Relay(beside.ports[0], here)
            self.relay.start()
            try:
                yield Beside((*beside.settings, f'plant.device.state="tcp://127.0.0.1:{here}"'), (), beside.pid)
            finally:
                self.relay.ends = True
                self.relay.join(SOON_S)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs in a runtime folder of this test's own."""
    with private_runs(tmp_path) as runs:
        yield runs


def test_promise_21_false_states_of_a_machine_are_refused_and_counted(runs: Runs) -> None:
    driver = Relayed()
    stage = Stage(driver, runs)
    run = stage.start(WAITS)
    with Watch(run.name) as watch:
        before = run.ask("status")["counts"]
        driver.relay.spoils = True
        assert eventually(lambda: driver.relay.sent > 3000)
        driver.relay.spoils = False
        stands = run.ask("status")
        refused = {word for word, n in stands["counts"].items() if n > before.get(word, 0)}
        assert refused >= {
            *("refused_non_finite", "refused_type", "refused_shape", "refused_run", "refused_src", "refused_future"),
            *("refused_malformed", "refused_frames", "refused_topic", "old_states"),
        }
        assert (stands["lifecycle"], stands["fault"]) == ("active", "")
        assert watch.status().values["armed"] == 1.0
    run.stop()
    columns = run.columns
    assert max(abs(columns["X"])) < 10.0
    stage.close()
