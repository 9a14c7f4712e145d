"""What recorder, page and a viewer on the open bus cost a run in real time, all at once.

    python benchmarks/listeners.py            the table
    python benchmarks/listeners.py --json     the same numbers for machines
    python benchmarks/listeners.py --seconds 60 --pairs 5

A run of the robot with trailer at speed 1, a state and a command each millisecond, alone and with `--record`, `--page`
(a client receives all of its frames) and `--telemetry` (a subscriber to everything works as PlotJuggler's does). The
runs are interleaved; figures are medians over the pairs, the ratio's range behind it. Last stands what is missing in
the recordings by the messages' own numbers.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgpack
import zmq
from common import options
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from servonode.record.bag import read_bag
from servonode.record.info import info

LAUNCH = "trailer_pursuit"
SETTINGS = (
    "run.speed=1", "controller.period=0.001", "plant.publish_every=1", "plant.safety.command_timeout_floor=0.5",
)  # fmt: skip
ADDRESS = "tcp://127.0.0.1:9872"
QUANTILES = ("p50", "p99")


@dataclass(frozen=True)
class Row:
    """Round trips [s] alone and with all listeners, their ratio and its range over the pairs."""

    quantile: str
    alone_s: float
    listened_s: float
    ratio: float
    lowest: float
    highest: float


@dataclass
class Received:
    """What the listeners got of one run: messages of the viewer, series that it found, frames of the page."""

    messages: int = 0
    series: int = 0
    frames: int = 0


def command(seconds: float, *words: str) -> list[str]:
    settings = [word for each in (*SETTINGS, f"run.duration={seconds}") for word in ("--set", each)]
    name = ("--name", f"listeners_{os.getpid()}")
    return [
        sys.executable,
        "-m",
        "servonode.cli.main",
        "run",
        LAUNCH,
        "--no-report",
        "--json",
        *settings,
        *name,
        *words,
    ]


def alone(seconds: float) -> dict[str, Any]:
    """What a run says of itself with nobody listening."""
    done = subprocess.run(command(seconds), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def listened(seconds: float) -> tuple[dict[str, Any], Received, dict[str, Any]]:
    """The same with all listeners, what these got, and what the recording holds."""
    received = Received()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.mcap"
        words = ("--record", str(file), "--telemetry", ADDRESS, "--page")
        process = subprocess.Popen(
            command(seconds, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
        )
        with viewer(received), process:
            assert process.stderr is not None
            for line in process.stderr:
                if link := re.search(r"http://\S+", line):
                    threading.Thread(target=browse, args=(link[0], received), daemon=True).start()
                    break
            threading.Thread(target=process.stderr.read, daemon=True).start()
            assert process.stdout is not None
            printed = json.loads(process.stdout.read())
        return printed, received, info(read_bag(file))


@contextmanager
def viewer(received: Received) -> Iterator[None]:
    """A subscriber to everything that flattens each message to series, as PlotJuggler does."""
    ended = threading.Event()

    def listen() -> None:
        series: set[str] = set()
        with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
            subscriber.setsockopt(zmq.RCVTIMEO, 100)
            subscriber.setsockopt(zmq.LINGER, 0)
            subscriber.connect(ADDRESS)
            subscriber.subscribe(b"")
            while not ended.is_set():
                with suppress(zmq.Again):
                    topic, payload = subscriber.recv_multipart()
                    series.update(flat(topic.decode(), msgpack.unpackb(payload)))
                    received.messages += 1
        received.series = len(series)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def flat(name: str, value: Any) -> Iterator[str]:
    """The series of a message."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flat(f"{name}/{key}", each)
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from flat(f"{name}[{i}]", each)
    elif isinstance(value, int | float):
        yield name


def browse(link: str, received: Received) -> None:
    """Receive the page's frames, as a browser does: each is answered once it has been read."""
    with suppress(ConnectionClosed), connect(f"{link.replace('http', 'ws', 1)}feed", origin=origin(link)) as feed:
        for frame in feed:
            received.frames += "rows" in json.loads(frame)
            feed.send("drawn")


def origin(link: str) -> Origin:
    """Where a page says that it comes from."""
    return Origin("/".join(link.split("/")[:3]))


def compare(pairs: int, seconds: float) -> dict[str, Any]:
    """The table's rows, what the listeners got, and what is missing in the recordings."""
    found, missing, got = [], 0, []
    for _ in range(pairs):
        quiet = alone(seconds)
        busy, received, holds = listened(seconds)
        found.append((quiet["round_trip_s"], busy["round_trip_s"]))
        missing += sum(holds["missing"].values())
        got.append(received)
    rows = []
    for quantile in QUANTILES:
        ratios = sorted(busy[quantile] / quiet[quantile] for quiet, busy in found)
        times = [median(each[i][quantile] for each in found) for i in (0, 1)]
        rows.append(Row(quantile, *times, median(ratios), ratios[0], ratios[-1]))
    return {
        "rows": [asdict(row) for row in rows],
        "viewer_messages_per_s": median(each.messages for each in got) / seconds,
        "viewer_series": median(each.series for each in got),
        "page_frames_per_s": median(each.frames for each in got) / seconds,
        "missing_in_recordings": missing,
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each run")
    arguments = parser.parse_args()
    table = compare(arguments.pairs, arguments.seconds)
    if arguments.json:
        print(json.dumps(table))
        return
    print(f"{'round trip':<12}{'alone':>10}{'listened':>12}{'ratio':>8}")
    for row in table.pop("rows"):
        spread = f"({row['lowest']:.2f} to {row['highest']:.2f})"
        times = f"{1e6 * row['alone_s']:>7.0f} us{1e6 * row['listened_s']:>9.0f} us"
        print(f"{row['quantile']:<12}{times}{row['ratio']:>8.2f} {spread}")
    for name, value in table.items():
        print(f"{name.replace('_', ' '):<28}{value:>10g}")


if __name__ == "__main__":
    main()
