"""examples/external_plant.c: a whole run in lockstep, its place and its end, and whatever bytes a host may send.

The last also for the example in JavaScript.

What it shares with the example in Python is tested in test_external_example.py and tests/safety/test_external_c.py.
"""

import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

import servonode
from tests.helpers.external_c import SANITIZED, external_c
from tests.helpers.external_programs import external_node
from tests.helpers.runs import START_S, Runs, eventually

LAUNCH = "trailer_pursuit_external"
MODES = ("realtime", "lockstep")
NAMES = ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder: a socket's path has 107 bytes."""
    made = Path(tempfile.mkdtemp(prefix="sn", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_a_run_in_lockstep_has_the_bits_of_the_simulation(runs: Runs) -> None:
    robot = subprocess.Popen([external_c()])
    try:
        run = runs.start(LAUNCH, "run.mode=lockstep", "run.duration=3", "plant.publish_every=1", words=["--arm"])
        run.ends_with(0, START_S)
        columns = run.columns
    finally:
        robot.terminate()
        assert robot.wait(10) == 0
    assert runs.left_files() == []
    expected = servonode.simulate(LAUNCH, run__mode="lockstep", run__duration=3.0)
    assert expected.fault is None
    rows, ours = np.isin(expected.t, columns["t"]), np.isin(columns["t"], expected.t)
    assert rows.sum() > 270
    for name, theirs in (expected.state | expected.input).items():
        np.testing.assert_array_equal(columns[name][ours], theirs[rows], name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_in_good_order_and_leaves_nothing(folder: Path, number: int) -> None:
    chosen = number == signal.SIGTERM  # where the user has chosen the folder itself, it stays
    base = folder if chosen else folder / "servonode"
    robot = subprocess.Popen(
        [external_c()], env={"SERVONODE_RUNTIME_DIR" if chosen else "XDG_RUNTIME_DIR": str(folder)}
    )
    assert eventually((base / "devices" / "diff_drive_trailer.state").exists)
    assert [each.stat().st_mode & 0o777 for each in (base, base / "devices")] == [0o700, 0o700]
    robot.send_signal(number)
    assert robot.wait(10) == 0
    assert list(folder.iterdir()) == []


def ends_at_once(folder: Path, *words: str, **environment: str) -> str:
    """What it says where it cannot begin: one line."""
    environment = {"XDG_RUNTIME_DIR": str(folder), **environment}
    result = subprocess.run(
        [external_c(), *words], env=environment, capture_output=True, text=True, timeout=10, check=False
    )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_where_it_cannot_begin_it_says_why_in_one_line(folder: Path) -> None:
    (folder / "servonode").mkdir(mode=0o755)
    assert "servonode: belongs to or is open to others; remove it" in ends_at_once(folder)
    (folder / "servonode").rmdir()
    (folder / "servonode").symlink_to(tempfile.gettempdir())
    assert "belongs to or is open to others" in ends_at_once(folder)
    (folder / "servonode").unlink()
    (folder / "servonode").touch()
    assert "belongs to or is open to others" in ends_at_once(folder)
    (folder / "servonode").unlink()
    assert "no absolute path" in ends_at_once(folder, SERVONODE_RUNTIME_DIR="somewhere")
    assert "--fast: no address" in ends_at_once(folder, "--fast")
    assert "give two" in ends_at_once(folder, f"ipc://{folder}/state")
    assert "at most 107 bytes" in ends_at_once(folder, f"ipc://{folder}/{'s' * 120}", f"ipc://{folder}/applied")
    assert "tcp://nowhere" in ends_at_once(folder, "tcp://nowhere:x", f"ipc://{folder}/applied")


def test_socket_of_a_running_example_is_kept_of_a_killed_one_taken(folder: Path) -> None:
    words = [external_c(), f"ipc://{folder}/state", f"ipc://{folder}/applied"]
    robot = subprocess.Popen(words)
    assert eventually((folder / "state").exists)
    assert "another program of this machine is running" in ends_at_once(folder, *words[1:])
    robot.kill()
    robot.wait()
    assert (folder / "state").exists()
    robot = subprocess.Popen(words)
    with Host(folder) as host:
        host.begin()
    robot.terminate()
    assert robot.wait(10) == 0
    assert not (folder / "state").exists()


class Host:
    """Whoever binds `applied`, with what it sends of its own making."""

    def __init__(self, folder: Path) -> None:
        self._context = zmq.Context()
        self._out, self._into = self._context.socket(zmq.PUB), self._context.socket(zmq.SUB)
        self._out.sndhwm = 0  # nothing is dropped
        self._out.bind(f"ipc://{folder}/applied")
        self._into.connect(f"ipc://{folder}/state")
        self._into.subscribe("")
        self.run, self.parameters = 0, dict(servonode.load(LAUNCH).machine.parameters)

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def send(self, *frames: bytes) -> None:
        self._out.send_multipart(frames)

    def setup(self, **changes: Any) -> dict[str, Any]:
        head = {"t": 0.0, "k": 0, "seq": 1, "run": self.run, "mono": 1, "node": "plant", "src": 5}
        good = {
            "machine": "diff_drive_trailer", "mode": MODES[self.run % 2], "step": 0.001, "period": 0.01, "speed": 1.0,
            "timeout": 0.1, "inputs": ["U1", "U2"], "limits": {"U1": 0.4}, "parameters": self.parameters,
            "start": dict.fromkeys(NAMES, 0.1),
        }  # fmt: skip
        return head | good | changes

    def applied(self, **changes: Any) -> dict[str, Any]:
        head = {"t": 0.0, "k": 0, "seq": 1, "run": self.run, "mono": 1, "node": "plant", "src": 5}
        return head | {"input": {"U1": 0.1, "U2": 0.2}, "until": 10, "final": False, "state_seq": -1} | changes

    def begin(self, within_s: float = 30.0) -> None:
        """A new run begins: what was sent before has been taken, for messages keep their order."""
        self.run, end, asked = self.run + 1, time.monotonic() + within_s, 0.0
        while time.monotonic() < end:
            if time.monotonic() > asked + 0.05:
                asked = time.monotonic()
                self.send(b"setup", msgpack.packb(self.setup()))
            if self._into.poll(20):
                topic, payload = self._into.recv_multipart()
                message = msgpack.unpackb(payload)
                if topic == b"state" and message["run"] == self.run:
                    return
        raise AssertionError("no answer to a setup")


def mutated(payload: bytes, rng: random.Random) -> bytes:
    """A good message with some bytes changed, cut out or put in."""
    changed = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(changed) or 1)
        changed = changed or bytearray(1)
        match rng.randrange(5):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                changed[at] ^= 1 << rng.randrange(8)
            case 2:
                del changed[at : at + rng.choice((1, 2, 9))]
            case 3:
                changed[at:at] = rng.randbytes(rng.choice((1, 4, 9)))
            case 4:
                del changed[at + 1 :]
    return bytes(changed)


def odd_messages(host: Host, rng: random.Random) -> Iterator[tuple[bytes, ...]]:
    """Messages that are random, mutated, or good in form with values that make no sense."""
    values = [0, -1, 2**53, 2**64 - 1, 1e308, -1e308, 5e-324, float("nan"), float("inf"), True, "x", "", [], {}]
    values.append([1.0] * 300)
    while True:
        topic, good = rng.choice([(b"setup", host.setup()), (b"applied", host.applied())])
        if topic == b"setup" and rng.randrange(2):
            good["run"] = rng.randrange(1, 2**53)  # a run of its own
        match rng.randrange(6):
            case 0:
                yield topic, rng.randbytes(rng.choice((0, 1, 5, 40, 3000)))
            case 1:  # claims of more than there is
                claim = rng.choice((b"\xdf", b"\xdd", b"\xdb", b"\xc6")) + rng.randbytes(4)
                yield topic, rng.choice((b"", b"\x81\xa3run")) + claim
            case 2:
                yield topic, rng.choice((b"\x91", b"\x81\xa1a")) * rng.randrange(2000)
            case 3:
                key = rng.choice(list(good))
                yield topic, msgpack.packb(good | {key: rng.choice(values)})
            case 4:
                yield rng.choice([(topic,), (topic, b"", b""), (b"", b""), (topic + b"s", msgpack.packb(good))])
            case _:
                yield topic, mutated(msgpack.packb(good), rng)


@pytest.mark.parametrize("n", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("language", ["c", "node"])
def test_no_bytes_of_a_host_crash_it(folder: Path, language: str, n: int) -> None:
    """In C with the sanitizers for addresses and undefined behaviour, which end it at the first finding."""
    program, rng = [external_c(SANITIZED)] if language == "c" else external_node(), random.Random(n)
    words = [*program, f"ipc://{folder}/state", f"ipc://{folder}/applied", "--any-speed"]
    robot = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    with closing(robot.stderr), Host(folder) as host:  # type: ignore[type-var]
        host.begin()
        odd = odd_messages(host, rng)
        for i in range(n):
            host.send(*next(odd))
            if i % 500 == 499:
                assert robot.poll() is None, robot.stderr.read()  # type: ignore[union-attr]
                host.begin(120.0)
        host.begin(120.0)
        robot.terminate()
        assert robot.wait(60) == 0, robot.stderr.read()  # type: ignore[union-attr]
        assert robot.stderr.read() == ""  # type: ignore[union-attr]
