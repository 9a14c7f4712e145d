"""What a million hostile messages cost a run whose machine is met over tcp with keys, before authentication and after.

    python benchmarks/hostile.py                     the table
    python benchmarks/hostile.py --messages 100000   fewer
    python benchmarks/hostile.py --json              the same numbers for machines

The robot with trailer is `examples/external_plant.py`, at speed 1 with a state and a command each 2 ms; everything is
recorded. One flood after the other sends its share to the address of the inputs, as fast as it is taken, at the lowest
priority, and is held still in every second window; the first only computes. A round trip goes from a state of the plant
to the input that answers it; the ratio is that of the windows with and without the flood, the longest is that from the
flood's first message to half a second after its end. Memory is that of the plant's process before and after each flood.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import options

from servonode.bus import BusError, Requester
from servonode.bus.keys import KeyStore
from servonode.bus.topology import PLANT
from servonode.operator.find_runs import find_run
from servonode.record.bag import read_bag

sys.path.append(str(Path(__file__).parents[1]))  # for the floods, which the tests state
from tests.helpers.hostile import FLOODS, Place, attacker, recorded
from tests.helpers.ports import free_port

ROBOT = Path(__file__).parents[1] / "examples" / "external_plant.py"
LAUNCH = "trailer_pursuit_external"
SETTINGS = (
    "run.duration=3600", "controller.period=0.002", "plant.publish_every=2", "plant.safety.command_timeout=5",
    "plant.device.timeout=5", 'plant.device.key="robot"',
)  # fmt: skip
AIM = 1.5  # disturbed to undisturbed
WINDOW_S = 0.5
LEAST = 6  # windows of a flood
LONGEST_S = 300.0  # of one flood; then what it has sent is what is said
START_S = 30.0
QUANTILES = (50, 99)


@dataclass(frozen=True)
class Row:
    """One flood: messages sent, seconds in which it sent, round trips [s] by quantile without and with it."""

    flood: str
    messages: int
    seconds: float
    quiet_s: list[float]
    flooded_s: list[float]
    ratios: list[float]
    longest_s: float
    memory_mb: tuple[float, float]
    refused: dict[str, int]


@dataclass
class Played:
    """One flood before the recording is read: windows [monotonic ns] without and with it."""

    flood: str
    messages: int
    windows: tuple[list[tuple[int, int]], list[tuple[int, int]]]
    memory_mb: tuple[float, float]
    refused: dict[str, int]


class Stage:
    """A run with keys, its machine, and the pairs of its attackers. A context manager that ends them."""

    def __init__(self, folder: Path) -> None:
        self.bag, self._errors = folder / "run.mcap", folder / "run.stderr"
        self._name = f"hostile_{os.getpid()}"
        desk, robot = KeyStore(folder / "desk"), KeyStore(folder / "robot")
        files = {name: KeyStore(folder / name).new(name) for name in ("watcher", "former")}
        desk_key, robot_key = desk.new("desk"), robot.new("robot")
        desk.trust(robot_key, ["plant"])
        desk.trust(files["watcher"], ["controller"])
        desk.trust(files["former"], ["plant"])
        stores = {"known": robot, "other role": KeyStore(folder / "watcher"), "revoked": KeyStore(folder / "former")}
        pairs = {word: (pair.public, pair.secret) for word, store in stores.items() for pair in [store.pair()]}
        ports = free_port(), free_port()
        self._addresses = [f"tcp://127.0.0.1:{port}" for port in ports]
        self._keys = ["--keys", str(robot_key.with_suffix(".key_secret")), str(desk_key)]
        self._environment = {**os.environ, "SERVONODE_KEYS": str(desk.folder)}
        self._desk, self.place = desk, Place(ports[1], desk.pair().public, pairs)

    def __enter__(self) -> "Stage":
        self._robot = subprocess.Popen([sys.executable, str(ROBOT), *self._addresses, *self._keys])
        self._run = self._start()
        try:
            self._wait_active()
            replayed = recorded(self.place, self.place.pairs["known"])
        except BaseException:
            self.__exit__()
            raise
        self.place = replace(self.place, replayed=replayed)
        self._revoke()
        self.pid = int(find_run(self._name).registry["pids"][PLANT])
        return self

    def _revoke(self) -> None:
        """Trust a key no more that has tried to connect, so that the plant knows its name."""
        with attacker("revoked key", self.place):
            time.sleep(WINDOW_S)
        self._desk.revoke("former")

    def _start(self) -> "subprocess.Popen[bytes]":
        places = [f'plant.device.{key}="{at}"' for key, at in zip(("state", "applied"), self._addresses, strict=True)]
        words = [word for each in (*SETTINGS, *places) for word in ("--set", each)]
        command = [sys.executable, "-m", "servonode.cli.main", "run", LAUNCH, "--arm", "--no-report", *words]
        command += ["--name", self._name, "--record", str(self.bag)]
        with self._errors.open("w") as errors:
            return subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL, stderr=errors)

    def _wait_active(self) -> None:
        end = time.monotonic() + START_S
        while not self.active():
            if time.monotonic() > end or self._run.poll() is not None:
                raise SystemExit(f"the run has not become active within {START_S:g} s: {self._errors.read_text()}")
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        if self._run.poll() is None:
            self._run.send_signal(signal.SIGINT)
        self._run.wait()
        self._robot.kill()
        self._robot.wait()

    def status(self) -> dict[str, Any]:
        """What the plant says of itself; empty: it does not answer."""
        with suppress(BusError, TimeoutError), Requester(find_run(self._name).path, PLANT) as requester:
            return requester.ask({"ask": "status"}, 2.0)
        return {}

    def active(self) -> bool:
        """Whether commands reach the machine."""
        return self.status().get("lifecycle") == "active"

    def memory_mb(self) -> float:
        """Resident memory of the plant."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def play(stage: Stage, name: str, messages: int) -> Played:
    """One flood until it has sent so many messages."""
    before, memory = Counter(stage.status()["counts"]), stage.memory_mb()
    windows: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    end = time.monotonic() + LONGEST_S
    with attacker(name, stage.place) as (pid, sent):
        time.sleep(WINDOW_S)  # for it to start
        while len(windows[0]) < LEAST or (sent.value < messages and time.monotonic() < end):
            for which, number in enumerate((signal.SIGSTOP, signal.SIGCONT)):
                os.kill(pid, number)
                begin = time.monotonic_ns()
                time.sleep(WINDOW_S)
                windows[which].append((begin, time.monotonic_ns()))
        memories = memory, stage.memory_mb()
    time.sleep(WINDOW_S)  # the end of its connections is work too
    if (standing := stage.status()).get("lifecycle") != "active":
        raise SystemExit(f"{name}: the run is no longer active: {standing.get('faults') or 'it does not answer'}")
    since = Counter(standing["counts"]) - before
    return Played(name, sent.value, windows, memories, {key: n for key, n in since.items() if "refused" in key})


def round_trips(bag: Path) -> tuple[np.ndarray, np.ndarray]:
    """When the states of a recording were sent [monotonic ns], and how long it took until their inputs were [s]."""
    states: dict[int, int] = {}
    answered: dict[int, int] = {}
    sent, taken = [], []
    for mono, topic, message in read_bag(bag).messages(("plant/state", "controller/command", "plant/applied")):
        if topic == "plant/state":
            states[message["seq"]] = mono
        elif topic == "controller/command":
            answered[message["seq"]] = message["re"]
        elif (state := states.pop(answered.pop(message["re"], -1), 0)) != 0:
            sent.append(state)
            taken.append((mono - state) / 1e9)
    return np.array(sent), np.array(taken)


def row(played: Played, sent: np.ndarray, taken: np.ndarray) -> Row:
    """The numbers of one flood."""

    def within(windows: list[tuple[int, int]]) -> np.ndarray:
        return np.concatenate([taken[(sent >= begin) & (sent < end)] for begin, end in windows])

    quiet, flooded = ([float(each) for each in np.percentile(within(each), QUANTILES)] for each in played.windows)
    ratios = [b / a for a, b in zip(quiet, flooded, strict=True)]
    begin, end = played.windows[1][0][0], played.windows[1][-1][1] + round(WINDOW_S * 1e9)
    longest, seconds = float(within([(begin, end)]).max()), len(played.windows[1]) * WINDOW_S
    return Row(
        played.flood, played.messages, seconds, quiet, flooded, ratios, longest, played.memory_mb, played.refused
    )


def measure(messages: int) -> list[Row]:
    """A row for each flood; so many messages before authentication, and as many after it."""
    with tempfile.TemporaryDirectory() as folder:
        with Stage(Path(folder)) as stage:
            played = [play(stage, name, round(share * messages)) for name, (_, share) in FLOODS.items()]
        sent, taken = round_trips(stage.bag)
        return [row(each, sent, taken) for each in played]


def table(rows: list[Row]) -> str:
    """A line for each flood, with what was refused below it."""
    lines = [
        f"{'flood':<32}{'messages':>10}{'1/s':>8}{'p50':>14}{'p99':>16}{'ratios':>12}{'longest':>11}{'memory':>14}"
    ]
    for each in rows:
        p50, p99 = (f"{1e6 * a:.0f}, {1e6 * b:.0f} us" for a, b in zip(each.quiet_s, each.flooded_s, strict=True))
        ratios = " ".join(f"{ratio:.2f}" for ratio in each.ratios)
        memory = "{:.0f} to {:.0f} MB".format(*each.memory_mb)
        sent = f"{each.messages:>10}{each.messages / each.seconds:>8.0f}"
        lines.append(f"{each.flood:<32}{sent}{p50:>14}{p99:>16}{ratios:>12}{1e3 * each.longest_s:>8.1f} ms{memory:>14}")
        lines += [f"    {name} {number}" for name, number in each.refused.items()]
    worst = (max(each.ratios[which] for each in rows) for which in range(len(QUANTILES)))
    return "\n".join([*lines, "ratios: at most {:.2f} and {:.2f}; aim: at most {}".format(*worst, AIM)])


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="before authentication, and as many after it")
    arguments = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("hostile.py reads /proc, which this system does not have; run it on Linux")
    rows = measure(arguments.messages)
    print(
        json.dumps({"rows": [asdict(each) for each in rows], "aim": AIM}, indent=1) if arguments.json else table(rows)
    )


if __name__ == "__main__":
    main()
