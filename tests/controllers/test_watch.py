"""Watches of a program: their values along a run, where they are shown, what is refused."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sympy import Piecewise, sin

import servonode
from servonode.controllers import Program, residual, signal, state, target, watch
from servonode.controllers.engine.servo import derive_servo
from servonode.mechanics import Model, ModelError, coordinate, input_, output, parameter, time
from servonode.mechanics.derive import derive
from servonode.views.panels import panels_of
from tests.helpers.refusals import refusal


def cart() -> Model:
    x = coordinate("x", "place", "m", start=0.2)
    m, F = parameter("m", "mass", "kg", default=2.0), input_("F", "push", "N")
    return Model(
        "cart", "a cart", m * x.rate**2 / 2, (), (m,), (x,), inputs={F: x.rate}, outputs=(output("twice", "", 2 * x),)
    )


def follow(machine: Model) -> Program:
    goal, slow = target("goal", "place", "m"), signal("slow", "a factor", default="0.5 + 0.1*t")
    way = state("way", "what was gone", "m")
    x = machine["x"]
    wanted = watch("wanted", "speed", goal.rate + slow * (goal - x), "m/s")
    left = watch("left", "of the way", Piecewise((way - sin(time), time > 0.5), (-1, True)), "m")
    rows = (residual("speed", x.rate - wanted, "the speed is the wanted one", "m/s"),)
    return Program("follow", "", rows, targets=(goal,), signals=(slow,), states={way: x.rate}, watches=(wanted, left))


@pytest.fixture(scope="module")
def run() -> Any:
    return servonode.simulate(
        {
            "run": {"duration": 2.0},
            "plant": {"machine": cart},
            "controller": {"program": follow},
            "target": {"goal": "0.3*sin(t)"},
        }
    )


def test_a_watch_has_its_value_at_every_recorded_instant(run: Any) -> None:
    t, x = run.t, run.state["x"]
    wanted = 0.3 * np.cos(t) + (0.5 + 0.1 * t) * (0.3 * np.sin(t) - x)
    assert_allclose(run.columns["wanted"], wanted, atol=1e-14)
    assert_allclose(run.residual["speed"], run.state["x_dot"] - wanted, atol=1e-14)
    left = np.where(t > 0.5, run.program_state["way"] - np.sin(t), -1.0)
    assert_allclose(run.columns["left"], left, atol=1e-14)


def test_a_watch_is_in_frames_panels_and_json(run: Any) -> None:
    assert (run.units["wanted"], run.units["left"]) == ("m/s", "m")
    assert run.final()["watched"] == {"wanted": run.watched["wanted"][-1], "left": run.watched["left"][-1]}
    panels = panels_of(run, {**run.state, **run.outputs, **run.input})
    assert [list(each.columns) for each in panels][-2:] == [["wanted"], ["left"]]


def refused(*watches: Any) -> str:
    model = cart()
    stated = Program("try", "", (residual("at", model["x"], ""),), watches=watches)
    return refusal(ModelError, derive_servo, derive(model), stated)


def test_a_watch_that_cannot_be_is_refused_with_the_remedy() -> None:
    model = cart()
    for name in ("x", "twice", "energy"):
        assert f"the name of the watch '{name}' is used already; rename it" in refused(watch(name, "", model["x"]))
    assert "'F' is neither a state or parameter" in refused(watch("w", "", model["F"]))
    twice = watch("w", "", model["x"])
    assert "the watch 'w' is used already" in refused(twice, twice)
    with pytest.raises(ModelError, match=r"was not made by watch\(...\)"):
        Program("try", "", (residual("at", model["x"], ""),), watches=(model["x"],))
