"""Pursuit and reversing onto a line on every machine that servonode drives, in lockstep: one table.

    python benchmarks drivers

Each row is one way to the robot, with the same law: the machine's own equations, the external plant in C, firmware with
float32 packets over a pseudo-terminal and over UDP, MuJoCo, and an estimate from sensors in place of the state: of the
wheels' encoders and the gyroscope alone, with the hitch's potentiometer, and with a camera; then the same of firmware
that sends readings alone, from which the plant node estimates. Residuals are those of the true states (of firmware that
sends readings: as it writes them), in the second half of the run; with an estimate the law saw others. Beside them the
largest distance of the robot, and of its trailer's axle, from where the equations have them at the same time.
Needs a C compiler, make, and the headers of ZeroMQ and msgpack; a program that cannot be built is named in its row.
"""

import atexit
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import options

import servonode
from servonode.analysis.comparison import sizes

ROOT = Path(__file__).parent.parent
SERVONODE = [sys.executable, "-m", "servonode.cli.main"]
TASKS = {"pursuit": "trailer_pursuit", "reversing": "trailer_reverse"}
LIMIT = "plant.safety.limit=5"  # N m; external plants need one, and this one never acts
WAIT_S = 600
DURATION_S = 24.0
WHEELS = ("encoder_left", "encoder_right", "gyroscope")
TRUTH = ("--truth", "{place}/truth")
HITCH, CAMERA = "hitch_potentiometer", ("camera_x", "camera_y")


class Met(NamedTuple):
    """The settings by which a run meets its machine, and the file into which that writes its true states, if any."""

    settings: tuple[str, ...]
    truth: Path | None = None


class NotHere(Exception):
    """Why a machine is not available on this computer."""


@cache
def built(folder: str, target: str) -> Path:
    """A machine's program, built by the Makefile of its folder."""
    build = tempfile.mkdtemp(prefix="servonode-drivers-")
    atexit.register(shutil.rmtree, build, ignore_errors=True)
    own = f"SERVONODE={' '.join(SERVONODE)}"
    made = ["make", "-C", str(ROOT / folder), f"BUILD={build}", own, f"{build}/{target}"]
    done = subprocess.run(made, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "make failed")
    return Path(build, target)


@contextmanager
def program(folder: str, target: str, settings: tuple[str, ...], *words: str) -> Iterator[Met]:
    """A machine's program, started with these words; in them and in the settings {place} is a folder of its own."""
    with tempfile.TemporaryDirectory() as place:
        command = [str(built(folder, target)), *(word.replace("{place}", place) for word in words)]
        machine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            if folder == "firmware":
                assert machine.stdout is not None
                machine.stdout.readline()  # it serves
            truth = Path(place, "truth") if TRUTH[1] in words else None
            yield Met((LIMIT, *(setting.replace("{place}", place) for setting in settings)), truth)
        finally:
            machine.terminate()
            machine.communicate()


@contextmanager
def nothing(*settings: str) -> Iterator[Met]:
    """No program stands beside the run."""
    yield Met(settings)


def sensors(*names: str) -> tuple[str, ...]:
    """Settings by which the law works on an estimate from these sensors."""
    return (f"estimator.sensors={json.dumps(names)}", "estimator.process_noise=0.001", "estimator.initial_std=0.001")


def alone(udp: str, *names: str) -> Any:
    """The firmware that sends the readings of its sensors alone, of which these are used."""
    settings = ("plant.driver=udp", f"plant.device.address={udp}", "plant.device.sends=readings", *sensors(*names))
    return program("firmware", "robot", settings, "--udp", udp, "--readings", *TRUTH)


def free_address() -> str:
    """A UDP address at which nobody receives."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def ways() -> Mapping[str, Any]:
    """By the name of each row, what makes its machine."""
    udp, pty = free_address(), "{place}/robot.pty"
    ends = ("ipc://{place}/state", "ipc://{place}/applied")
    return {
        "equations": nothing(),
        "C, libzmq": program("examples", "external_plant", (
            "plant.driver=external", f"plant.device.state={ends[0]}", f"plant.device.applied={ends[1]}"), *ends),
        "firmware, serial": program("firmware", "robot", (
            "plant.driver=serial", f"plant.device.port={pty}", "plant.device.baud=3000000"), "--pty", pty),
        "firmware, UDP": program("firmware", "robot", (
            "plant.driver=udp", f"plant.device.address={udp}"), "--udp", udp),
        "MuJoCo": nothing("plant.driver=mujoco"),
        "wheels, gyro": nothing(*sensors(*WHEELS)),
        "  and hitch": nothing(*sensors(*WHEELS, HITCH)),
        "  and camera": nothing(*sensors(*WHEELS, HITCH, *CAMERA)),
        "wheels, firmware": alone(udp, *WHEELS),
        "  with hitch": alone(udp, *WHEELS, HITCH),
        "  with camera": alone(udp, *WHEELS, HITCH, *CAMERA),
        "all on MuJoCo": nothing(*sensors(*WHEELS, HITCH, *CAMERA), "plant.driver=mujoco"),
    }  # fmt: skip


def driven(task: str, met: Met, duration: float) -> dict[str, np.ndarray]:
    """The rows of a run in lockstep, by name, with the true states where the machine's program writes them."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run.csv")
        given = ("run.mode=lockstep", f"run.duration={duration:g}", "plant.safety.ramp=0", *met.settings)
        command = [*SERVONODE, "run", task, "--arm", "--no-report", "--json", "--output", str(out), "--every", "10"]
        command += [word for each in given for word in ("--set", each)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        if done.returncode:
            faults = json.loads(done.stdout)["faults"] if done.stdout.strip() else []
            raise NotHere(f"{faults[0]['name']} {faults[0]['t']:.1f} s" if faults else done.stderr.strip()[-200:])
        header, *rows = out.read_text().splitlines()
    table = np.array([row.split(",") for row in rows], dtype=float).T
    found = dict(zip(header.split(","), table, strict=True))
    return found if met.truth is None else found | true_states(task, met.truth, len(rows))


def true_states(task: str, file: Path, rows: int) -> dict[str, np.ndarray]:
    """What a machine's program has written of its last run, as many rows by state, ten steps apart."""
    written = np.loadtxt(file, delimiter=",", ndmin=2)
    begin = np.flatnonzero(written[:, 0] == 0)[-1]
    names = servonode.load(task).machine.description.state_names
    assert np.array_equal(written[begin:, 0], 10 * np.arange(rows)), "the program's rows are those of the run"
    return dict(zip(names, written[begin:, 1:].T, strict=True))


def true_residuals(task: str, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The residuals of the law at the states of the rows."""
    loop = servonode.load(task).closed_loop
    law = loop.control.law  # type: ignore[union-attr]
    names = [each.name for each in law.description.residuals]
    states = np.column_stack([rows[name] for name in loop.machine.description.state_names])
    answer, found = law.answer(), []
    for t, x in zip(rows["t"], states, strict=True):
        law.compute(t, np.ascontiguousarray(x), loop.goal(t), answer)
        found.append(answer.residuals.copy())
    return dict(zip(names, np.array(found).T, strict=True))


def row(task: str, rows: Mapping[str, np.ndarray], ideal: Mapping[str, np.ndarray]) -> dict[str, float]:
    """What is shown of a run."""
    found = {f"{name} rms": sizes(rows["t"], values)["rms_late"] for name, values in true_residuals(task, rows).items()}
    robot = np.hypot(rows["X"] - ideal["X"], rows["Y"] - ideal["Y"]).max()
    axles = [(each["X"] - np.cos(angle), each["Y"] - np.sin(angle))  # b = 1 m
             for each in (rows, ideal) for angle in (each["psi"] + each["phi"],)]  # fmt: skip
    trailer = np.hypot(axles[0][0] - axles[1][0], axles[0][1] - axles[1][1]).max()
    return {**found, "robot off [m]": float(robot), "trailer off [m]": float(trailer)}


def table(task: str, duration: float) -> dict[str, Any]:
    """A row of numbers for each machine, or the reason why not."""
    found: dict[str, Any] = {}
    ideal: dict[str, np.ndarray] = {}
    for name, way in ways().items():
        try:
            with way as met:
                rows = driven(task, met, duration)
        except NotHere as reason:
            found[name] = str(reason)
            continue
        ideal = ideal or rows
        found[name] = row(task, rows, ideal)
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--duration", type=float, default=DURATION_S, metavar="SECONDS", help="of each run (24)")
    arguments = parser.parse_args()
    tables = {name: table(task, arguments.duration) for name, task in TASKS.items()}
    if arguments.json:
        print(json.dumps(tables, indent=1))
        return
    for task, rows in tables.items():
        names = next(list(each) for each in rows.values() if isinstance(each, dict))
        print(f"{task:<18}" + "".join(f"{name:>18}" for name in names))
        for name, each in rows.items():
            shown = each if isinstance(each, str) else "".join(f"{value:>18.2e}" for value in each.values())
            print(f"{name:<18}{shown}")
        print()


if __name__ == "__main__":
    main()
