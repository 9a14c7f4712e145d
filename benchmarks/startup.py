"""Whole processes, start to end: help, list, check, first and later runs of the packaged launch files.

    python benchmarks/startup.py            the table
    python benchmarks/startup.py --all      and every packaged launch file with an empty cache; minutes
    python benchmarks/startup.py --json     the same numbers for machines

A run takes 0.01 s of plant time and draws no picture. The floor, in the same rounds: an interpreter that imports the
libraries which a run needs, numpy, pyzmq and msgspec. Rounds are interleaved; the figures are the fastest of each.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from common import options

COMMAND = str(Path(sys.executable).with_name("servonode"))
FLOOR = [sys.executable, "-c", "import numpy, zmq, msgspec"]
SHORT = ("--set", "run.duration=0.01", "--no-report")
ROUNDS = 5


def seconds(command: list[str], cache: str) -> float:
    """Wall time [s] of a process with this kernel cache; 2 is a packaged file that is refused, as it is meant to be."""
    began = perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "XDG_CACHE_HOME": cache}, cwd=cache, capture_output=True, text=True
    )
    took = perf_counter() - began
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr}")
    return took


def cold(file: str) -> float:
    """A run with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        return seconds([COMMAND, "run", file, *SHORT], cache)


def measured() -> dict[str, float]:
    """The fastest of ROUNDS, by what was run."""
    with tempfile.TemporaryDirectory() as cache:
        warm = {
            "floor: numpy, pyzmq, msgspec": FLOOR,
            "servonode -h": [COMMAND, "-h"],
            "servonode list": [COMMAND, "list"],
            "check trailer_pursuit, warm": [COMMAND, "check", "trailer_pursuit"],
            "simulate --control continuous, warm": [COMMAND, "simulate", "trailer_pursuit", "--control", "continuous"],
            "run trailer_pursuit, warm": [COMMAND, "run", "trailer_pursuit", *SHORT],
        }
        for command in warm.values():
            seconds(command, cache)  # fills the cache, and compiles Python's own files
        found: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, command in warm.items():
                found.setdefault(name, []).append(seconds(command, cache))
            for file in ("trailer_pursuit", "snowboarder_carve"):
                found.setdefault(f"run {file}, cold", []).append(cold(file))
    return {name: min(times) for name, times in found.items()}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--all", action="store_true", help="every packaged launch file with an empty cache too")
    arguments = parser.parse_args()
    found = measured()
    if arguments.all:
        from servonode.closed_loop.launch_file import packaged

        outside = {f"trailer_pursuit_{driver}" for driver in ("external", "serial", "udp")}
        waits = outside | {"trailer_pursuit_loopback"}  # for a plant, for an arming by hand
        found |= {f"run {file}, cold": cold(file) for file in packaged() if file not in waits}
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    floor = next(iter(found.values()))
    for name, took in found.items():
        print(f"{name:<40} {took:6.2f} s  {took / floor:5.1f} of the floor")


if __name__ == "__main__":
    main()
