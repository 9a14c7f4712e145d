"""What a million hostile messages cost a run with keys, before authentication and after it.

    python benchmarks/hostile.py                     the table
    python benchmarks/hostile.py relay               only one of the two parts, machine and relay
    python benchmarks/hostile.py --messages 100000   fewer
    python benchmarks/hostile.py --json              the same numbers for machines

machine: the robot with trailer is `examples/external_plant.py` at speed 1, with a state and a command each 2 ms; the
address of its inputs is flooded, which the plant serves. relay: the plant is on one computer and the controller on
another (both are this one), with a state and a command each 5 ms; the relay's address is flooded. One flood after the
other sends its share, as fast as it is taken, at the lowest priority, and is held still in every second window; the
first only computes. A round trip goes from a state of the plant to the input that answers it; the ratio is that of the
windows with and without the flood, the longest is that from the flood's first message to half a second after its end.
Memory is that of the process that is flooded, before and after.
"""

import json
import os
import re
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from heapq import merge
from pathlib import Path

import numpy as np
from common import options
from hostile_runs import FloodedRun, TwoComputers, attacker

from servonode.record.bag import read_bag

PARTS = {"machine": FloodedRun, "relay": TwoComputers}
AIM = 1.5  # disturbed to undisturbed
WINDOW_S = 0.5
LEAST = 6  # windows of a flood
LONGEST_S = 300.0  # of one flood; then what it has sent is what is said
QUANTILES = (50, 99)
REFUSAL = re.compile("unmet|hellos|connections|_key|_frames")  # in the name of a counter
TOPICS = ("plant/state", "controller/command", "plant/applied")


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


def play(run: FloodedRun, name: str, messages: int) -> Played:
    """One flood until it has sent so many messages."""
    before, memory = run.counts(), run.memory_mb()
    windows: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    end = time.monotonic() + LONGEST_S
    with attacker(name, run.place) as (pid, sent):
        time.sleep(WINDOW_S)  # for it to start
        while len(windows[0]) < LEAST or (sent.value < messages and time.monotonic() < end):
            for which, number in enumerate((signal.SIGSTOP, signal.SIGCONT)):
                os.kill(pid, number)
                begin = time.monotonic_ns()
                time.sleep(WINDOW_S)
                windows[which].append((begin, time.monotonic_ns()))
        memories = memory, run.memory_mb()
    time.sleep(WINDOW_S)  # the end of its connections is work too
    if not run.active():
        raise SystemExit(f"{name}: the run is no longer active: {run.said()}")
    refused = {name: number for name, number in (run.counts() - before).items() if REFUSAL.search(name)}
    return Played(name, sent.value, windows, memories, refused)


def round_trips(bags: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """When the states of a run were sent [monotonic ns], and how long it took until their inputs were [s]."""
    states: dict[int, int] = {}
    answered: dict[int, int] = {}
    sent, taken = [], []
    found = (read_bag(bag).messages(TOPICS) for bag in bags)
    for mono, topic, message in merge(*found, key=lambda each: each[0]):
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


def measure(part: str, messages: int) -> list[Row]:
    """A row for each flood; so many messages before authentication, and as many after it."""
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        with PARTS[part](Path(folder)) as run:
            played = [play(run, name, round(share * messages)) for name, (_, share) in run.floods.items()]
        sent, taken = round_trips(run.bags)
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
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, []], help=", ".join(PARTS))
    arguments = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("hostile.py reads /proc, which this system does not have; run it on Linux")
    found = {part: measure(part, arguments.messages) for part in arguments.parts or PARTS}
    if arguments.json:
        print(json.dumps({part: [asdict(each) for each in rows] for part, rows in found.items()} | {"aim": AIM}))
        return
    for part, rows in found.items():
        print(f"{part}\n{table(rows)}\n")


if __name__ == "__main__":
    main()
