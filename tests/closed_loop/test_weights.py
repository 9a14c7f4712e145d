"""The weighted least norm of over-actuated machines: its minimum, its bits, and what is refused."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import servonode
from servonode.closed_loop.device_terms import law_schema
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.variation import Variation
from servonode.controllers import Program, residual
from servonode.mechanics import Model, coordinate, input_

HITCH: dict[str, Any] = {"controller__settings__completion": "least_norm", "run__duration": 1.0}


def plate() -> Model:
    """A body on three jets, which is to keep its place alone: its turning is of no interest."""
    x, y, a = coordinate("x", "", "m"), coordinate("y", "", "m"), coordinate("a", "", "rad", start=0.4)
    jets = {
        input_(f"F{i}", f"jet {i}", "N"): rate
        for i, rate in enumerate((x.rate, y.rate + 0.3 * a.rate, x.rate - y.rate))
    }
    return Model("plate", "plate", (3 * x.rate**2 + 3 * y.rate**2 + a.rate**2) / 2, coordinates=(x, y, a), inputs=jets)


def loop(weights: Any, **plant: Any) -> servonode.Loop:
    controller = {"residuals": {"px": "x - 0.1", "py": "y + 0.2*a"}, "weights": weights, "gains": {"lambda": 4.0}}
    return servonode.load({"run": {"duration": 1.0}, "plant": {"machine": plate, **plant}, "controller": controller})


@pytest.mark.parametrize("weights", [{"F0": 1.0}, {"F0": 5.0}, {"F0": 0.2, "F1": 3.0, "F2": 40.0}])
def test_the_inputs_have_the_least_weighted_sum_of_squares_that_serves_the_residuals(weights: dict[str, float]) -> None:
    found = loop(weights)
    state = {"x": 0.3, "y": 0.7, "a": 0.2, "a_dot": -0.4}
    tau = np.array(list(found.law(0.0, state).values()))
    terms = found.terms(0.0, state)
    W, z = terms["W"], -16.0 * terms["f"] - 8.0 * terms["f_dot"] - terms["b"]
    assert_allclose(W @ tau, z, rtol=1e-12)
    root = np.sqrt([weights.get(name, 1.0) for name in ("F0", "F1", "F2")])
    assert_allclose(tau, np.linalg.pinv(W / root) @ z / root, rtol=1e-10)
    idle = np.linalg.svd(W)[2][-1]  # which no residual sees
    assert abs(tau * root**2 @ idle) < 1e-10
    law = found.closed_loop.control.law
    answer = law.evaluate(0.0, found.closed_loop.machine.state(state), np.zeros(law.goal_layout.size))
    assert_allclose(answer.condition, np.sqrt(np.linalg.cond(W / root**2 @ W.T, 1)), rtol=1e-10)  # of W Q^(-1/2)


def test_weights_of_one_give_the_bits_of_no_weights() -> None:
    plain = servonode.load("trailer_hitch_swing", **HITCH).simulate()
    one = servonode.load("trailer_hitch_swing", controller__weights__U2=1, **HITCH).simulate()
    for name, values in plain.columns.items():
        assert_array_equal(one.columns[name], values)


def test_a_heavy_motor_does_less_and_the_nodes_give_the_bits_of_the_compiled_loop() -> None:
    plain = servonode.load("trailer_hitch_swing", **HITCH).simulate()
    weighted = servonode.load("trailer_hitch_swing", controller__weights__U1=4, **HITCH)
    run, nodes = weighted.simulate(), weighted.simulate(loop="nodes")
    assert np.abs(run.input["U1"]).max() < 0.7 * np.abs(plain.input["U1"]).max()
    assert_allclose(run.residual["phi"], plain.residual["phi"], atol=2e-6)  # what they do together is the same
    for name, values in run.columns.items():
        assert_array_equal(nodes.columns[name], values)


def test_a_weight_varies_without_a_new_derivation() -> None:
    base = servonode.load("trailer_hitch_swing", controller__weights__U1=2, **HITCH).closed_loop
    variation = Variation(base, ["controller.weights.U1"])
    other = variation.at([3.0]).control
    stated = servonode.load("trailer_hitch_swing", controller__weights__U1=3, **HITCH).closed_loop.control
    assert other is not None
    assert stated is not None
    assert other.law.kernel is stated.law.kernel
    assert_array_equal(other.law.c, stated.law.c)
    with pytest.raises(LaunchError, match="is not a weight"):
        variation.at([-1.0])
    bare = servonode.load("trailer_hitch_swing", **HITCH).closed_loop
    with pytest.raises(LaunchError, match="weights are part of the law's equations"):
        Variation(bare, ["controller.weights.U1"])


def test_firmware_with_other_weights_has_another_law() -> None:
    numbers = set()
    for weight in (None, 1, 2, 3):
        more: dict[str, Any] = {} if weight is None else {"controller__weights__U1": weight}
        control = servonode.load("trailer_hitch_swing", **HITCH, **more).closed_loop.control
        assert control is not None
        numbers.add(law_schema(control.law))
    assert len(numbers) == 4


def test_firmware_that_keeps_otherwise_has_another_law() -> None:
    keeps = [{}, {"keep": "2 - V"}, {"keep": {"expression": "2 - V", "margin": 0.1}}, {"keep": "3 - V"}]
    loops = [servonode.load("trailer_pursuit", keep=each).closed_loop for each in keeps]
    loops += [servonode.load("trailer_pursuit", keep=keeps[1], controller__conflict="fault").closed_loop]
    assert len({law_schema(each.control.law) for each in loops if each.control}) == len(loops)


def test_the_shown_equations_have_the_weights() -> None:
    text = loop({"F1": 2.5}).show()
    assert "tau = Q^-1 W^T (W Q^-1 W^T)^-1 z" in text
    assert "F0 1, F1 2.5, F2 1" in " ".join(text.split())


def all_served(machine: Model) -> Program:
    rows = [residual(name, machine[name], "", "m") for name in ("x", "y")] + [residual("turn", machine["a"], "", "rad")]
    return Program("all", "", tuple(rows))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"weights": {"F0": 0.0}}, r"\[controller.weights\] F0: 0 is not a weight; give a number above 0"),
        ({"weights": {"F0": float("inf")}}, "F0"),
        ({"weights": {"F3": 1.0}}, "F3: unknown name; .*F0"),
        ({"residuals": None, "program": all_served}, "program .*all leaves no choice among the inputs that a weight"),
    ],
)
def test_what_is_no_weight_is_refused(changes: dict[str, Any], text: str) -> None:
    controller: dict[str, Any] = {"residuals": {"px": "x", "py": "y"}, "weights": {"F0": 2.0}} | changes
    controller = {key: value for key, value in controller.items() if value is not None}
    with pytest.raises(LaunchError, match=text):
        servonode.load({"run": {"duration": 1.0}, "plant": {"machine": plate}, "controller": controller})
