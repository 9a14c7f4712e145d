"""What a generated law computes, beside numpy: its inputs, its condition, its status."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.controllers import Program, ServoLaw, limit, residual
from servonode.controllers.engine.layout import GOOD, NOT_FINITE, SINGULAR
from servonode.mechanics import Model, condition, coordinate, input_

MOST = 1.5  # m/s^2, N: the limits of the program below


def table() -> Model:
    """A body on two jets; the second one is turned by the angle of a, and reaches nothing at pi/2."""
    x, a = coordinate("x", "", "m"), coordinate("a", "", "rad", start=0.4)
    jets = {input_("F", "", "N"): x.rate + 0.3 * a.rate, input_("G", "", "N"): a.rate * a}
    return Model("table", "table", x.rate**2 + a.rate**2 / 2 + x.rate * a.rate / 3, coordinates=(x, a), inputs=jets)


def program(machine: Model) -> Program:
    x, a = machine["x"], machine["a"]
    rows = residual("place", x + a**2, "", "m"), residual("angle", a - x / 5, "", "rad")
    return Program("of_table", "place and angle", rows, guards=(condition(x < 2.0, "beyond the edge"),))


def bounded(machine: Model) -> Program:
    """The same with limits on the demand and on an input."""
    stated, F = program(machine), machine["F"]
    limits = limit("demand", stated.residuals, MOST, ""), limit("force", (F,), MOST / 10, "")
    return Program("of_bounded_table", "limited", stated.residuals, limits=limits)


def law_of(build: Any, **controller: Any) -> ServoLaw:
    gains = {"lambda": 3.0, "integral": 0.5}
    control = servonode.load(
        {
            "run": {"duration": 1.0},
            "plant": {"machine": table},
            "controller": {"program": build, "gains": gains} | controller,
        }
    ).closed_loop.control
    assert control is not None
    return control.law


def test_the_condition_of_two_rows_is_that_of_numpy() -> None:
    """norm(W) norm(W^-1), both in the 1-norm, of a W that is not symmetric."""
    law = law_of(program)
    x, y = np.array([0.3, 0.7, 0.1, -0.2, 0.0]), np.zeros(law.goal_layout.size)
    W = law.terms(0.0, x, y)["W"]
    assert abs(W[0, 1] - W[1, 0]) > 0.1
    assert_allclose(law.evaluate(0.0, x, y).condition, np.linalg.cond(W, 1), rtol=1e-12)


def test_residuals_rates_and_integrals_are_fed_back_with_any_gains(rng: np.random.Generator) -> None:
    law = law_of(program)
    for _ in range(5):
        x, y = np.append(rng.uniform(0.2, 1.0, 4), 0.0), rng.normal(size=law.goal_layout.size)
        law.K[:] = rng.normal(size=law.K.shape)
        terms, answer = law.terms(0.0, x, y), law.evaluate(0.0, x, y)
        s = y[law.goal_layout.integrals]
        wanted = -law.K[0] @ terms["f"] - law.K[1] @ terms["f_dot"] - law.K[2] @ s - terms["b"]
        assert (answer.status, len(s)) == (GOOD, 2)
        assert_allclose(terms["W"] @ answer.inputs, wanted, rtol=1e-11, atol=1e-11)


def test_gains_in_use_are_those_of_the_residuals_and_a_copy_has_its_own() -> None:
    law = law_of(program)
    K = np.diag([9.0, 9.0]), np.diag([6.0, 6.0]), np.diag([4.5, 4.5])
    assert_allclose(law.K, K)
    copy = law.with_parameters({})
    copy.K[:] = 0.0
    assert_allclose(law.K, K)


@pytest.mark.parametrize(("x", "a", "status"), [(1.999, 0.4, GOOD), (2.0, 0.4, 1), (0.1, 0.0, SINGULAR)])
def test_the_status_tells_what_is_violated(x: float, a: float, status: int) -> None:
    law = law_of(program)
    assert law.evaluate(0.0, np.array([x, a, 0.0, 0.0, 0.0]), np.zeros(law.goal_layout.size)).status == status


def test_an_input_that_is_not_finite_is_no_answer() -> None:
    law = law_of(program)
    state = np.array([0.1, 0.4, 1e200, 1e200, 0.0])
    assert law.evaluate(0.0, state, np.full(law.goal_layout.size, 1e308)).status == NOT_FINITE


def test_limits_scale_the_demand_and_the_input_down_and_never_up() -> None:
    law = law_of(bounded)
    y, state = np.zeros(law.goal_layout.size), np.array([0.9, 0.4, 0.0, 0.0, 0.0])
    for share, acts in ((1.0, True), (1e-4, False)):
        law.K *= share
        terms, answer = law.terms(0.0, state, y), law.evaluate(0.0, state, y)
        demand = -law.K[0] @ terms["f"] - law.K[1] @ terms["f_dot"] - terms["delta"]
        scale = min(1.0, MOST / float(np.linalg.norm(demand)))
        asked = np.linalg.solve(terms["W"], scale * demand - (terms["b"] - terms["delta"]))
        force = min(1.0, MOST / 10 / abs(asked[0]))
        assert_allclose(answer.scales, [scale, force], rtol=1e-12)
        assert_allclose(answer.inputs, [asked[0] * force, asked[1]], rtol=1e-12)
        assert (scale < 1.0, force < 1.0) == (acts, acts)
