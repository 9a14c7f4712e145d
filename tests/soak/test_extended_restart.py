"""A controller with integrators of its own that is restarted during a run: they fit the state that it finds."""

import signal
import time
from pathlib import Path

import numpy as np

import servonode
from servonode.bus.topology import CONTROLLER
from tests.helpers.runs import RESTARTED, START_S, Runs, eventually
from tests.nodes.test_extended_restart import QUADROTOR, launch

# The integrators are fitted to the state as if the law were continuous. Of the sampled quadrotor, with a restart every
# 0.1 s from 0 to 3 s: the largest residual is at most 1.18 times that without, the largest change of an input between
# two instants 2.5 times (0.0038 of 0.032 N m, at 0.2 s).
MOMENTS, MORE, INPUTS_MORE = (0.2, 0.6, 1.7), 1.2, 2.6


def test_a_process_that_is_restarted_in_lockstep_keeps_the_machine_on_its_way(runs: Runs, tmp_path: Path) -> None:
    file = launch(tmp_path, *QUADROTOR)
    run = runs.start(
        str(file), "run.duration=20", "run.lockstep_timeout=60", 'plant.safety.on_fault="resume"', *RESTARTED
    )
    run.wait_open()
    before = run.pids()[CONTROLLER]
    time.sleep(0.2)
    run.kill(CONTROLLER, signal.SIGKILL)
    assert eventually(lambda: run.is_open() and run.pids()[CONTROLLER] != before, START_S)
    run.ends_with(0, START_S)
    assert run.printed["restarts"] == {CONTROLLER: 1}
    columns = run.columns
    t, x = columns["t"], columns["x"]
    expected = np.abs(servonode.simulate(file).residual["px"]).max()
    assert t[-1] == 20.0
    assert np.abs(x - np.sin(2 * t)).max() < MORE * expected
