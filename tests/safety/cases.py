"""The plants of all drivers, as the tests of the promises take them: settings of a run, and computers that run it."""

from typing import Any

import pytest

from tests.virtual import MS, US, Computer, Line
from tests.wires import WIRES, loop_of, wired

KINDS = ("simulated", "loopback", "serial", "external")  # each other driver shares all but its wire with one of these
EVERY = [*KINDS, *(pytest.param(each, marks=pytest.mark.slow) for each in WIRES if each not in KINDS)]
T, W, LATENESS = 10 * MS, 100 * MS, 400 * MS  # ns: control period, command timeout, limit of lateness
LOCKSTEP = 500 * MS  # lockstep_timeout
HOP = 100 * US  # from node to node
WAITS = 'plant.safety.on_fault="wait"'  # a fault waits for its reset
COMMON = (
    "run.speed=1",
    "run.duration=60",
    f"controller.period={T / 1e9}",
    f"plant.safety.command_timeout={W / 1e9}",
    f"plant.safety.lateness_limit={LATENESS / 1e9}",
    "plant.safety.safe_time=0.1",
    "plant.safety.ramp=0",  # what is asked acts at once, also after an arming
    f"run.lockstep_timeout={LOCKSTEP / 1e9}",
)


def computer(kind: str, *settings: str, hop: Line | None = None, launch: str = "", **options: Any) -> Computer:
    """A computer with a run of this kind of plant, of its own launch file or another one, which arms itself."""
    return Computer(loop_of(kind, *COMMON, *settings, launch=launch), hop or Line(HOP), wire=wired(kind), **options)
