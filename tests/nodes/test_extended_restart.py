"""A controller with integrators of its own that is restarted during a run: they fit the state that it finds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.nodes.answerer import Answerer
from servonode.nodes.controller_node import ControllerNode

EXAMPLES = Path(__file__).parents[2] / "examples"
# The integrators are fitted to the state as if the law were continuous. Of the sampled quadrotor, with a restart every
# 0.1 s from 0 to 3 s: the largest residual is at most 1.18 times that without, the largest change of an input between
# two instants 2.5 times (0.0038 of 0.032 N m, at 0.2 s).
MOMENTS, MORE, INPUTS_MORE = (0.2, 0.6, 1.7), 1.2, 2.6
CRANE = (
    "crane/crane.py:model",
    'load_x = "s + l*sin(theta) - X", load_z = "l*cos(theta) - Z"',
    'X = "sin(2*t)", Z = "4 - 0.5*cos(2*t)"',
)
QUADROTOR = ("quadrotor/quadrotor.py:model", 'px = "x - X", pz = "z - Z"', 'X = "sin(2*t)", Z = "cos(2*t)"')


def launch(folder: Path, machine: str, residuals: str, target: str) -> Path:
    """A launch file in lockstep."""
    file = folder / "extended.toml"
    file.write_text(f"""
        target = {{ {target} }}
        [run]
        duration = 3.0
        mode = "lockstep"
        [plant]
        machine = "{EXAMPLES}/{machine}"
        step = 0.001
        initial.on_program = true
        [controller]
        period = 0.005
        residuals = {{ {residuals} }}
        gains.lambda = "auto"
    """)
    return file


class Restarted(ControllerNode):
    """A controller that has forgotten at `restart_s` what a new process does not know."""

    again, restart_s = False, 0.0

    def _respond(self, state: Any, k: int) -> None:
        if state.t >= self.restart_s and not self.again:
            self.again = True
            self.answerer = Answerer(self.closed_loop, self.goals)
        super()._respond(state, k)


@pytest.mark.parametrize("restart_s", MOMENTS)
def test_a_controller_that_begins_within_a_run_goes_on_without_a_jump(
    restart_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = servonode.load(launch(tmp_path, *QUADROTOR))
    expected = loop.simulate(loop="nodes")
    monkeypatch.setattr("servonode.simulation.simulate.ControllerNode", Restarted)
    monkeypatch.setattr(Restarted, "restart_s", restart_s)
    run = loop.simulate(loop="nodes")
    before = run.t < restart_s
    for name, values in run.columns.items():
        assert np.array_equal(values[before], expected.columns[name][before]), name
    for name, values in run.residual.items():
        assert np.abs(values).max() < MORE * np.abs(expected.residual[name]).max()
    for name, values in run.input.items():
        assert np.abs(np.diff(values)).max() < INPUTS_MORE * np.abs(np.diff(expected.input[name])).max()


def test_an_integrator_that_is_a_thrust_is_found_again(tmp_path: Path) -> None:
    closed_loop = servonode.load(launch(tmp_path, *QUADROTOR)).closed_loop
    run, control = servonode.simulate(launch(tmp_path, *QUADROTOR), control="continuous"), closed_loop.control
    assert control is not None
    law, memory, at = control.law, control.law.memory(), 340
    y, x = closed_loop.goal(run.t[at]), np.array([values[at] for values in run.state.values()])
    law.fit_integrators(float(run.t[at]), x, y, memory)
    lost = np.array([values[at] for values in run.program_state.values()])
    assert memory[:2] == pytest.approx(lost, rel=1e-5)
    assert np.abs(law.memory()[:2] - lost).min() > 0.5


def test_what_does_not_determine_integrators_leaves_them_as_they_are(tmp_path: Path) -> None:
    control = servonode.load(launch(tmp_path, *CRANE)).closed_loop.control
    assert control is not None
    law, memory = control.law, control.law.memory()
    law.fit_integrators(0.0, np.full(law.machine.n_state, np.nan), control.goal(0.0), memory)
    assert np.array_equal(memory, law.memory())
