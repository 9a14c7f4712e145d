"""The goal's publisher is killed, frozen, sends NaN, jumps, floods: by the plant's record no limit is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from servonode.bus.topology import GOAL_HELD, TARGET
from servonode.record.bag import read_bag
from tests.helpers.runs import START_S, Process, eventually, private_runs

TELEOP = Path(__file__).parents[2] / "examples" / "goals" / "teleop.toml"
STAND_IN = """
import json, math, sys, time
import msgpack, zmq

address, mode = sys.argv[1:]
publisher = zmq.Context().socket(zmq.PUB)
publisher.bind(address)
NAN, old = float("nan"), time.monotonic_ns() - 10**10
BAD = [
    msgpack.packb({"v": NAN, "omega": NAN}), msgpack.packb({"v": math.inf, "omega": -math.inf}), b"\\xc1", b"{",
    json.dumps({"v": NAN, "omega": 1}).encode(), json.dumps({"v": "0.5", "omega": [1]}).encode(),
    json.dumps({"V": 0.5, "Omega": 1.0}).encode(), json.dumps({"v": 0.5, "omega": 1.0, "sent_ns": old}).encode(),
    json.dumps({"v": 0.51, "omega": -1e300}).encode(), b"\\x91" * 60000,
]
for k in range(10**9):
    t, side = 0.04 * k, 1.0 if k // 40 % 2 else -1.0
    if mode == "sticks":
        goal = {"v": 0.45 * math.sin(2 * t), "omega": 0.8 * math.cos(3 * t), "sent_ns": time.monotonic_ns()}
    else:
        goal = {"v": 0.5 * side, "omega": -side}
    publisher.send_multipart([b"goal", BAD[k % len(BAD)] if mode == "bad" else json.dumps(goal).encode()])
    if mode != "flood":
        time.sleep(0.04)
"""


@contextmanager
def gamepad(folder: Path, address: str, mode: str) -> Iterator[int]:
    """A process in the place of a gamepad's; killed in the end."""
    script = folder / "stand_in.py"
    script.write_text(STAND_IN)
    process = subprocess.Popen([sys.executable, str(script), address, mode])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def passes(run: Process, seconds: float) -> float:
    """Let plant time pass; the time now."""

    def now() -> float:
        assert run.popen.poll() is None, run.stderr
        return float(run.ask("status")["t"] or 0.0)

    end = now() + seconds
    assert eventually(lambda: now() >= end, START_S)
    return now()


def held(run: Process) -> bool:
    """Whether the target node says that its goal is held."""
    stands: dict[str, Any] = run.ask("status", TARGET)
    return bool(stands["values"].get(GOAL_HELD)) and "it goes back to 0" in stands["held"]


def test_whatever_a_gamepad_does_the_robot_stays_within_its_limits_and_stops_when_nobody_steers(
    tmp_path: Path,
) -> None:
    with private_runs(tmp_path) as runs:
        address = f"ipc://{runs.runtime}/pad"
        source = [f'target.{name}.{key}="{value}"' for name in ("v", "omega") for key, value in
                  (("topic", "goal"), ("address", address))]  # fmt: skip
        run = runs.start(str(TELEOP), *source, "target.v.fault_after=6.0", "run.duration=600",
                         "plant.safety.command_timeout=0.5",
                         words=("--record", str(bag := tmp_path / "run.mcap")))  # fmt: skip
        run.wait_open()
        with gamepad(tmp_path, address, "sticks") as pid:
            assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
            driven = passes(run, 4.0)
            os.kill(pid, signal.SIGSTOP)
            assert eventually(lambda: held(run))
            stopped = passes(run, 2.5)
            os.kill(pid, signal.SIGCONT)
            assert eventually(lambda: not held(run))
            passes(run, 1.5)
        assert eventually(lambda: held(run))  # killed
        killed = passes(run, 2.5)
        with gamepad(tmp_path, address, "bad"):
            bad = passes(run, 2.0)
            assert held(run)
        with gamepad(tmp_path, address, "jumps"):
            jumped = passes(run, 4.0)
            assert eventually(lambda: not held(run))
        with gamepad(tmp_path, address, "flood"):
            passes(run, 2.0)
        assert eventually(lambda: held(run))
        run.ends_with(1)
        t, record, counts = run.columns["t"], run.columns, run.printed["node_counts"][TARGET]
        assert [fault["name"] for fault in run.printed["faults"]] == ["target", "stale_command"]
        assert "no sample of v has come" in run.fault("target")["text"]
    statuses = [each for _, _, each in read_bag(bag).messages([f"{TARGET}/status"])]
    told = [bool(each["values"].get(GOAL_HELD)) for each in statuses if each["lifecycle"] == "active"]
    assert sum(after and not before for before, after in pairwise(told)) >= 3  # the record tells it
    assert np.abs(record["V"]).max() <= 0.6
    assert np.abs(record["Omega"]).max() <= 1.2
    assert np.abs([record["U1"], record["U2"]]).max() <= 0.4
    steered = (t > driven - 3.0) & (t < driven)
    assert np.ptp(record["V"][steered]) > 0.5
    assert np.abs(record["V"][(t > bad) & (t < jumped)]).max() > 0.3  # the jumps were followed
    for end in (stopped, killed, bad):
        still = (t > end - 0.3) & (t < end - 0.05)
        assert max(np.abs(record["V"][still]).max(), np.abs(record["Omega"][still]).max()) < 0.02
    assert counts["lost_v"] >= 3  # a busy computer may keep the stand-in waiting, too
    assert {f"samples_v_{each}" for each in ("type", "malformed", "missing", "late", "range")} <= counts.keys()
