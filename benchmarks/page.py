"""What the page on a run costs, and what it costs the run: shares of a core, frames per second, round trips.

    python benchmarks/page.py            the table
    python benchmarks/page.py --json     the same numbers for machines

A run in real time with states and commands at 1 kHz goes alone and with a page at which browsers look, in turn, three
times each. The browsers answer each message and draw nothing: a real one would take a core of this computer, where its
place is another one. Shares are user and system time over wall time.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from common import options
from websockets.sync.client import connect

from servonode.operator.operator_requests import status

LAUNCH, NAME = "sphero_pursuit", "page-benchmark"
SETTINGS = (
    "run.speed=1", "run.duration=3600", "controller.period=0.001",
    "plant.safety.command_timeout_floor=1", "plant.safety.repeats=500",  # a computer that is busy ends no run
)  # fmt: skip
COMMAND = [sys.executable, "-m", "servonode.cli.main"]
COLUMNS = ("browsers", "server %", "feed %", "frames/s", "round trip p50 [ms]", "p99 [ms]")
BROWSERS, ROUNDS, SETTLE_S = (0, 1, 4), 3, 4.0


@contextmanager
def running() -> Iterator[None]:
    """The run, from its first status to its end."""
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    command = [*COMMAND, "run", LAUNCH, "--name", NAME, "--no-report", "--json", *words]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2 * SETTLE_S)
    try:
        yield
    finally:
        run.terminate()
        run.wait()


class Browser(threading.Thread):
    """Takes what it is told, and counts frames."""

    def __init__(self, link: str) -> None:
        super().__init__(daemon=True)
        self.frames, self._link, self.left = 0, link, False

    def run(self) -> None:
        address, origin = self._link.replace("http", "ws"), self._link.rsplit("/", 2)[0]
        with connect(f"{address}feed", origin=origin, max_size=None, compression=None) as feed:  # type: ignore[arg-type]
            while not self.left:
                self.frames += '"scene"' in str(feed.recv())
                feed.send("drawn")


def link_of(page: "subprocess.Popen[bytes]", stderr: Path) -> str:
    """The link that a page prints when it is served."""
    while not (text := stderr.read_text()).endswith("/\n"):
        if page.poll() is not None:
            raise SystemExit(f"no page: {text}")
        time.sleep(0.1)
    return text.split()[-1]


def used_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(browsers: int, seconds: float) -> tuple[float, float, float]:
    """Shares of a core [%] of the page's server and of its feed, frames per second of the slowest browser."""
    with tempfile.NamedTemporaryFile("w") as stderr:
        page = subprocess.Popen([*COMMAND, "page", NAME], stderr=stderr)
        shown = [Browser(link_of(page, Path(stderr.name))) for _ in range(browsers)]
        for each in shown:
            each.start()
        time.sleep(SETTLE_S)
        feed = int(Path(f"/proc/{page.pid}/task/{page.pid}/children").read_text())
        before = [used_s(page.pid), used_s(feed), *(each.frames for each in shown)]
        time.sleep(seconds)
        after = [used_s(page.pid), used_s(feed), *(each.frames for each in shown)]
        for each in shown:
            each.left = True
            each.join()
        page.terminate()
        page.wait()
    server, drawing, *frames = [(b - a) / seconds for a, b in zip(before, after, strict=True)]
    return 100 * server, 100 * drawing, min(frames)


def round_trip_ms() -> dict[str, float]:
    """Percentiles of the run so far."""
    values = status(NAME)["nodes"]["plant"]["values"]
    return {key: 1e3 * values[f"round_trip_{key}"] for key in ("p50", "p99")}


def medians(seconds: float) -> list[dict[str, float]]:
    """A row for each number of browsers."""
    rows: dict[int, list[tuple[float, ...]]] = {browsers: [] for browsers in BROWSERS}
    for browsers in BROWSERS * ROUNDS:
        with running():
            if browsers:
                shares = measured(browsers, seconds)
            else:
                time.sleep(seconds + 2 * SETTLE_S)
                shares = (0.0, 0.0, 0.0)
            rows[browsers].append((browsers, *shares, *round_trip_ms().values()))
    return [dict(zip(COLUMNS, map(median, zip(*found, strict=True)), strict=True)) for found in rows.values()]


def main() -> None:
    """The table, or with --json the same numbers for machines."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    arguments = parser.parse_args()
    rows = medians(arguments.seconds)
    if arguments.json:
        print(json.dumps(rows))
        return
    print("  ".join(COLUMNS))
    for row in rows:
        print("  ".join(f"{value:>{len(name)}.3g}" for name, value in row.items()))


if __name__ == "__main__":
    main()
