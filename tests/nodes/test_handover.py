"""A law whose numbers are changed while it drives: its inputs go from the old ones to the new ones without a jump."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import servonode
from servonode.bus import State
from servonode.bus.topology import CONTROLLER
from servonode.closed_loop.parameters import judged, numbers_of
from servonode.nodes.answerer import GoalVector, Handover
from servonode.nodes.controller_node import ControllerNode
from servonode.plants.limits import Limits, SoftStart
from servonode.record.run import Run

AT, RAMP_S = 0.3, 0.5  # s
PREDICTED = {"controller__delay": 2, "controller__predictor": True}
PURSUIT, CIRCLE = {"plant__initial": {"V": 0.5}}, dict[str, Any]()


class Changed(ControllerNode):
    """A controller whose numbers are changed at these times [s], each time again until its answer is due."""

    changes: tuple[tuple[float, list[float]], ...] = ()

    def _respond(self, state: State, k: int) -> None:
        while self.changes and state.t >= self.changes[0][0]:
            self.use(self.changes[0][1])
            self.changes = self.changes[1:]
        super()._respond(state, k)


def changed(
    monkeypatch: pytest.MonkeyPatch, name: str, changes: list[tuple[float, dict[str, float]]], **settings: Any
) -> Run:
    """A run of which numbers are changed at these times."""
    loop = servonode.load(name, run__duration=2.0, **settings)
    numbers = tuple((t, numbers_of(judged(loop.closed_loop, {}, values), CONTROLLER).tolist()) for t, values in changes)
    monkeypatch.setattr("servonode.simulation.simulate.ControllerNode", Changed)
    monkeypatch.setattr(Changed, "changes", numbers)
    return loop.simulate(loop="nodes")


def steps_of(run: Run, begin: float, end: float) -> float:
    """The largest change of an input between two rows, from one time to another."""
    inside = (run.t[1:] > begin - 1e-9) & (run.t[1:] < end - 1e-9)
    return max(float(np.abs(np.diff(values))[inside].max()) for values in run.input.values())


@pytest.mark.parametrize(
    ("name", "key", "value", "settings"),
    [
        ("trailer_pursuit", "controller.gains.lambda_speed", 20.0, PURSUIT),
        ("trailer_pursuit", "controller.parameters.r", 0.2, PURSUIT),
        ("trailer_pursuit", "controller.parameters.r", 0.2, PURSUIT | PREDICTED),
        ("trailer_circle", "controller.settings.radius", 1.9, CIRCLE),
        ("trailer_circle", "controller.settings.v", 0.6, CIRCLE),  # a function of time that is a number
        ("trailer_circle", "controller.settings.v", 0.6, PREDICTED),
    ],
)
def test_a_changed_number_moves_no_input_by_more_than_its_share_of_a_soft_start(
    name: str, key: str, value: float, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    change = [(AT, {key: value})]
    at_once = changed(monkeypatch, name, change, **settings, plant__safety__ramp=0.0)
    softly = changed(monkeypatch, name, change, **settings, plant__safety__ramp=RAMP_S)
    usual, jump = (steps_of(at_once, *span) for span in ((AT - 0.1, AT), (AT, AT + 0.05)))
    assert jump > 3 * usual
    assert steps_of(softly, AT, AT + RAMP_S) < usual + 2 * jump * 0.01 / RAMP_S
    before = softly.t < AT
    assert all(np.array_equal(values[before], at_once.input[u][before]) for u, values in softly.input.items())


def test_after_the_time_of_a_soft_start_the_law_is_the_new_one_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    change = {"controller.gains.lambda_speed": 20.0}
    run = changed(monkeypatch, "trailer_pursuit", [(AT, change)], **PURSUIT)
    control = judged(servonode.load("trailer_pursuit", **PURSUIT).closed_loop, {}, change).control
    assert control is not None
    last = round((AT + RAMP_S) * 100) - 1  # the period in which the share is 1
    differs = []
    for i in (last - 1, last, last + 1):
        x = np.array([*(values[i] for values in run.state.values())])
        inputs = control.law.evaluate(run.t[i], x, control.goal(run.t[i])).inputs
        differs.append(inputs.tolist() != [values[i] for values in run.input.values()])
    assert differs == [True, False, False]


def test_changes_in_a_row_move_no_input_by_more_than_the_share_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [(AT + 0.01 * i, {"controller.gains.lambda_speed": (20.0, 2.0)[i % 2]}) for i in range(20)]
    at_once = changed(monkeypatch, "trailer_pursuit", changes[:1], **PURSUIT, plant__safety__ramp=0.0)
    softly = changed(monkeypatch, "trailer_pursuit", changes, **PURSUIT, plant__safety__ramp=RAMP_S)
    usual, jump = (steps_of(at_once, *span) for span in ((AT - 0.1, AT), (AT, AT + 0.05)))
    assert steps_of(softly, AT, 2.0) < usual + 2 * jump * 0.01 / RAMP_S


def test_a_law_that_has_not_answered_yet_begins_with_its_new_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    change = {"controller.gains.lambda_speed": 20.0}
    run = changed(monkeypatch, "trailer_pursuit", [(0.0, change)], **PURSUIT)
    stated = servonode.load("trailer_pursuit", run__duration=2.0, controller__gains__lambda_speed=20.0, **PURSUIT)
    expected = stated.simulate()
    assert all(np.array_equal(values, expected.columns[name]) for name, values in run.columns.items())


def test_where_the_law_before_has_no_answer_nothing_of_an_earlier_change_comes_back() -> None:
    control = servonode.load("trailer_pursuit", **PURSUIT).closed_loop.control
    assert control is not None
    soft = SoftStart(4, 0, Limits((), ()), False)
    handover, law, asked = Handover(control.law, control.signals, soft), Mock(), []
    law.compute.side_effect = lambda _t, _x, _y, answer: answer.inputs.fill(100.0) or len(asked) > 5
    for instant in range(12):
        if instant in (1, 6):
            handover.leave(law, control.signals)
        inputs = np.zeros(control.law.machine.n_inputs)
        if handover.before(instant) is not None:
            handover.lead(law, instant, 0.0, np.zeros(1), GoalVector(control.law).y, inputs)
        asked.append(inputs[0])
    assert asked == [0.0, 93.75, 75.0, 43.75, *[0.0] * 8]
