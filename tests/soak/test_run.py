"""Runs in real time: rates, what a busy computer misses, and how well they steer."""

import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import maximum_filter1d

import servonode
from servonode.bus import Status
from servonode.bus.topology import CONTROLLER, PLANT
from tests.helpers.runs import START_S, Runs, Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
PERIOD = 0.01
FORGIVING = "plant.safety.command_timeout_floor=0.5"  # a busy host is not what is tested


class Floor:
    """The periods that a bare loop misses beside a run: what this machine takes from any process."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self.missed = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def _count(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            late = int((time.monotonic() - due) // self.period_s)
            self.missed += late
            due += (1 + late) * self.period_s

    def __enter__(self) -> "Floor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def steps_since_a_change(columns: dict[str, Any], settle: int) -> Any:
    """For each row, the longest time [steps] for which the inputs had stood still within the last `settle` steps."""
    inputs = np.column_stack([columns["U1"], columns["U2"]])
    rows = np.arange(len(inputs))
    changed = np.concatenate([[True], np.any(np.diff(inputs, axis=0) != 0, axis=1)])
    age = rows - np.maximum.accumulate(np.where(changed, rows, 0))
    return maximum_filter1d(age, settle, origin=(settle - 1) // 2)


def test_a_machine_without_controller_runs_alone(runs: Runs) -> None:
    process = runs.start("trailer_coast", "run.duration=4", "run.speed=4")
    process.ends_with(0, START_S)
    assert process.printed["rate"] == pytest.approx(4.0, rel=0.01)
    expected = servonode.simulate("trailer_coast", run__duration=4.0).final()
    assert process.printed["state"] == expected["state"]  # nothing acts, so real time changes no bit


def test_the_pursuit_in_real_time_steers_as_well_as_stated(runs: Runs) -> None:
    with Floor(period_s=PERIOD / 2) as floor:
        process = runs.start("trailer_pursuit", "run.speed=2", "run.duration=50", FORGIVING)
        process.ends_with(0, 120.0)
    printed = process.printed
    assert printed["rate"] == pytest.approx(2.0, rel=1e-3)
    assert printed["misses"] <= 50 + 4 * floor.missed  # of 5000; on a quiet machine both are 0
    assert printed["counts"].get("missed_commands", 0) <= 50 + 4 * floor.missed
    columns = process.columns
    kept = (columns["t"] >= 25) & np.isfinite(columns["residual_heading"])  # a period without its command has none
    kept &= steps_since_a_change(columns, settle=2000) < 20  # no hold of two periods, now or 2 s before
    assert np.sum(kept) >= 2000
    assert 2e-5 < np.max(np.abs(columns["residual_heading"][kept])) < 4e-5  # a perfect hold of 10 ms; a few steps late


def test_with_a_period_of_delay_inputs_change_at_the_control_instants(runs: Runs) -> None:
    # a step is shorter than a round trip, so an input that waited for the next answer would act between the instants
    given = ("run.duration=1", "run.speed=1", "plant.step=1e-4", "plant.publish_every=100", "controller.delay=1")
    process = runs.start("trailer_open_loop", *given, "controller.settings.U1=0.1 + t", FORGIVING)
    process.ends_with(0, START_S)
    changes = np.flatnonzero(np.diff(process.columns["U1"])) + 1
    assert len(changes) > 90
    assert np.sum(changes % 100 != 0) <= 5  # a busy host may make an answer later than a whole period


def test_a_fast_run_with_a_fast_controller_gets_its_goals(runs: Runs) -> None:
    process = runs.start("trailer_pursuit", "run.speed=3", "controller.period=0.001", "run.duration=2", FORGIVING)
    process.ends_with(0, START_S)
    assert process.printed["t"] == 2.0


def test_a_controller_that_freezes_is_noticed_even_by_a_plant_that_is_always_late(runs: Runs) -> None:
    # a million steps a second of plant time, twenty times as fast as the wall: more than a core can do
    given = ("run.speed=20", "plant.step=1e-6", "plant.publish_every=10000", "run.duration=2000")
    process = runs.start("trailer_pursuit", *given, "plant.safety.lateness_limit=1000", words=("--every", "1000000"))
    process.wait_open()
    with Watch(process.name) as watch:  # on a busy computer it may have missed its commands before
        watch.until(lambda message: type(message) is Status and message.node == PLANT and message.t > 0, 0, START_S)
    frozen = process.kill(CONTROLLER, signal.SIGSTOP)
    process.ends_with(1)
    assert (time.monotonic_ns() - frozen) / 1e9 < 5.0
    assert process.fault("stale_command")
    assert process.printed["overruns"] > 0
