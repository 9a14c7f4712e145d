"""What a bridge to another tool costs a run in real time: alone, read by nobody, flooded, killed and started again.

    python benchmarks/bridges.py              the table
    python benchmarks/bridges.py --json       the same numbers for machines
    python benchmarks/bridges.py --seconds 30 --pairs 5

A run of the robot with trailer at speed 1, a state and a command each millisecond, alone and beside a bridge in each of
these cases. Runs are interleaved; figures are medians over the pairs, the ratio's range behind it.

still      a client receives everything, but never reads: its process is held still
flooded    a client sends goals, or asks for numbers and changes, as fast as it can
killed     the bridge is killed and started again, every two seconds
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from common import options

LAUNCH = "trailer_pursuit"
SETTINGS = (
    "run.speed=1", "controller.period=0.001", "plant.publish_every=1", "plant.safety.command_timeout_floor=0.5",
)  # fmt: skip
NAME = f"bridges_{os.getpid()}"
QUANTILES = ("p50", "p99")
DOMAIN = 1 + os.getpid() % 99
AGAIN_S = 2.0  # between a bridge's start and its end, where it is killed
ROS2_CLIENT = """
import sys
import time
from servonode.wings.neighbours.ros2_graph import Ros2Node

node, still = Ros2Node(int(sys.argv[1])), {"x": 0.0, "y": 0.0, "z": 0.0}
topics = {"/joint_states": "sensor_msgs/msg/JointState", "/tf": "tf2_msgs/msg/TFMessage"}
readers = [node.subscription(*each) for each in topics.items()]
print("ready", flush=True)
while sys.argv[2] == "flooded":
    node.publish("/cmd_vel", "geometry_msgs/msg/Twist", {"linear": still, "angular": still})
time.sleep(3600)
"""
PORT = 20000 + os.getpid() % 10000
FOXGLOVE_CLIENT = """
import contextlib
import json
import sys
import time
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

asked = {"op": "getParameters", "parameterNames": []}
change = {"op": "setParameters", "parameters": [{"name": "controller.gains.lambda", "value": 1}]}
while True:  # the server ends a connection that floods it
    with (
        contextlib.suppress(OSError, ConnectionClosed),
        connect(f"ws://127.0.0.1:{sys.argv[1]}", subprotocols=["foxglove.sdk.v1"], max_size=None) as server,
    ):
        channels = []
        while len(channels) < 4:
            channels += json.loads(server.recv()).get("channels", [])
        ids = [{"id": each["id"], "channelId": each["id"]} for each in channels]
        server.send(json.dumps({"op": "subscribe", "subscriptions": ids}))
        print("ready", flush=True)
        while sys.argv[2] == "flooded":
            server.send(json.dumps(asked))
            server.send(json.dumps(change))
        time.sleep(3600)
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Bridge:
    """A bridge: its command, and a client of it as a program, whose last argument is the case."""

    command: tuple[str, ...]
    client: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """Round trips [s] alone and in a case of a bridge, their ratio and its range over the pairs."""

    bridge: str
    case: str
    quantile: str
    alone_s: float
    bridged_s: float
    ratio: float
    lowest: float
    highest: float


BRIDGES = {
    "ros2": Bridge(("bridge", "ros2", NAME, "--domain", str(DOMAIN)), (sys.executable, "-c", ROS2_CLIENT, str(DOMAIN))),
    "foxglove": Bridge(
        ("bridge", "foxglove", NAME, "--port", str(PORT)), (sys.executable, "-c", FOXGLOVE_CLIENT, str(PORT))
    ),
}


def servonode(*words: str) -> list[str]:
    return [sys.executable, "-m", "servonode.cli.main", *words]


def run(seconds: float, beside: Callable[[], Any] = threading.Event) -> dict[str, float]:
    """The round trips of a run; beside: is called once it has begun, and its result set before it ends."""
    settings = [word for each in (*SETTINGS, f"run.duration={seconds}") for word in ("--set", each)]
    command = servonode("run", LAUNCH, "--no-report", "--json", "--name", NAME, *settings)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        ended = beside()
        assert process.stdout is not None
        printed: dict[str, Any] = json.loads(process.stdout.read())
        ended.set()
    found: dict[str, float] = printed["round_trip_s"]
    return found


def still(bridge: Bridge, ended: threading.Event) -> None:
    """A client that receives, and then stands still."""
    with started(servonode(*bridge.command)), started([*bridge.client, "still"]) as client:
        assert client.stdout is not None
        client.stdout.readline()
        time.sleep(1.0)
        client.send_signal(signal.SIGSTOP)
        ended.wait()


def flooded(bridge: Bridge, ended: threading.Event) -> None:
    """A client that sends as fast as it can, at a lower priority than the run."""
    with started(servonode(*bridge.command)), started(["nice", *bridge.client, "flooded"]):
        ended.wait()


def killed(bridge: Bridge, ended: threading.Event) -> None:
    """A bridge that is killed again and again."""
    while not ended.is_set():
        with started(servonode(*bridge.command)):
            ended.wait(AGAIN_S)


CASES = {"still": still, "flooded": flooded, "killed": killed}


@contextmanager
def started(command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """A process that is killed in the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(case: Callable[[Bridge, threading.Event], None], bridge: Bridge) -> threading.Event:
    """Begin a case, once the run can be found; it ends when what is returned is set."""
    ended = threading.Event()
    while subprocess.run(servonode("status", NAME), capture_output=True, check=False).returncode:
        time.sleep(0.1)
    threading.Thread(target=case, args=(bridge, ended)).start()
    return ended


def compare(bridge: str, case: str, pairs: int, seconds: float) -> list[Row]:
    """The rows of one case."""
    found = []
    for _ in range(pairs):
        quiet = run(seconds)
        found.append((quiet, run(seconds, lambda: begin(CASES[case], BRIDGES[bridge]))))
    rows = []
    for quantile in QUANTILES:
        ratios = sorted(busy[quantile] / quiet[quantile] for quiet, busy in found)
        times = [median(each[i][quantile] for each in found) for i in (0, 1)]
        rows.append(Row(bridge, case, quantile, *times, median(ratios), ratios[0], ratios[-1]))
    return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run")
    arguments = parser.parse_args()
    rows = [
        row for bridge in BRIDGES for case in CASES for row in compare(bridge, case, arguments.pairs, arguments.seconds)
    ]
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
        return
    print(f"{'bridge':<10}{'case':<10}{'round trip':<12}{'alone':>10}{'bridged':>12}{'ratio':>8}")
    for row in rows:
        spread = f"({row.lowest:.2f} to {row.highest:.2f})"
        times = f"{1e6 * row.alone_s:>7.0f} us{1e6 * row.bridged_s:>9.0f} us"
        print(f"{row.bridge:<10}{row.case:<10}{row.quantile:<12}{times}{row.ratio:>8.2f} {spread}")


if __name__ == "__main__":
    main()
