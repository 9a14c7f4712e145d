"""Servo-constraints: derived f', J, delta and W against differences and closed forms; solves, refusals."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose

from servonode.controllers import Program, ServoLaw, residual, signal, target
from servonode.controllers.engine.law_source import law_source
from servonode.controllers.engine.servo import derive_servo
from servonode.mechanics import Model, ModelError, parameter, time
from servonode.mechanics.derive import derive
from servonode.mechanics.equations import Equations
from servonode.mechanics.machine import Machine
from tests.helpers.packaged import model_factory
from tests.helpers.refusals import refusal

HERE = Path(__file__)
FIRST = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60  # central differences of order 6
SECOND = np.array([2, -27, 270, -490, 270, -27, 2]) / 180


def hitch_and_speed(machine: Model) -> Program:
    g, v = signal("phi_d", "hitch program", "rad", default="0"), signal("v0", "speed", "m/s", default="0.4")
    rows = residual("hitch", machine["phi"] - g, "", "rad"), residual("speed", machine["V"] - v, "", "m/s")
    return Program("hitch_and_speed", "hitch and speed follow functions of time", rows, signals=(g, v))


def hitch_and_yaw(machine: Model) -> Program:
    g = signal("phi_d", "hitch program", "rad", default="0")
    rows = residual("hitch", machine["phi"] - g, "", "rad"), residual("yaw", machine["Omega"], "", "rad/s")
    return Program("hitch_and_yaw", "singular when straight", rows, signals=(g,))


def place_and_turn(machine: Model) -> Program:
    px, py = target("px", "", "m"), target("py", "", "m")
    k = parameter("k", "bend of the program", default=0.3)
    rows = (
        residual("x", machine["x"] - px + k * machine["y"] * machine["psi"], "", "m"),
        residual("y", machine["y"] - py - sympy.sin(2 * time) / 3, "", "m"),
        residual("turn", machine["psi"].rate - 0.5 * machine["vx"] * sympy.cos(machine["psi"]), "", "rad/s"),
    )
    return Program("place_and_turn", "a plate on a path", rows, parameters=(k,), targets=(px, py))


def same_thing_twice(machine: Model) -> Program:
    x, y = machine["x"], machine["y"]
    rows = tuple(residual(f"f{i}", each, "", "m") for i, each in enumerate((x, y, x + 3 * y)))
    return Program("same_thing_twice", "never independent", rows)


def cart_place(machine: Model) -> Program:
    g = signal("x0", "where the cart should be", "m", default="0")
    return Program("cart_place", "the cart follows", (residual("place", machine["x"] - g, "", "m"),), signals=(g,))


def pole_angle(machine: Model) -> Program:
    rows = (residual("angle", machine["theta"], "", "rad"),)
    return Program("pole_angle", "the cart cannot turn a pole that is level", rows)


def trailer_model() -> Model:
    return model_factory("diff_drive_trailer")()


@pytest.fixture
def laws(trailer: Machine, small: ModuleType) -> Callable[[str], ServoLaw]:
    """The law of each program above by its name."""

    def law(name: str) -> ServoLaw:
        program = globals()[name]
        if name in ("hitch_and_speed", "hitch_and_yaw"):
            return small.law(name, trailer_model, program, trailer, HERE)
        build = small.cart_pole if name in ("cart_place", "pole_angle") else small.plate
        return small.law(name, build, program, small.machine(build), HERE)

    return law


class Sample:
    """A law at a random instant: state, inputs, targets and signals as polynomials of time."""

    def __init__(self, law: ServoLaw, rng: np.random.Generator) -> None:
        self.law, self.machine, d = law, law.machine, law.description
        self.t = float(rng.uniform(0.0, 1.0))
        self.x = rng.normal(size=self.machine.n_state + 1) * 0.7
        self.u = rng.normal(size=self.machine.n_inputs) * 0.1
        self.names = [(name, d.target_order) for name in d.targets]
        self.names += [(each.name, d.signal_order) for each in d.signals]
        self.polynomials = [Polynomial(rng.normal(size=4) * [1, 0.5, 0.3, 0.1]) for _ in self.names]
        self.law = law = law.started(self.t, self.x, self.y(self.t), {})
        law.stabilise({each.name: 2.0 for each in d.residuals})

    def y(self, t: float) -> Any:
        pairs = zip(self.polynomials, self.names, strict=True)
        return np.array([p.deriv(n)(t) if n else p(t) for p, (_, order) in pairs for n in range(order + 1)])

    def state(self, ahead: float) -> Any:
        """The state on the machine's motion under the held inputs, `ahead` seconds later (or before)."""
        x, step = self.x.copy(), self.machine.stepper("rk4")
        for i in range(40):
            step(self.t + i * ahead / 40, x, self.u, self.machine.c, ahead / 40)
        return x

    def residuals(self, ahead: float) -> Any:
        """f and f' (2, n_s) on the motion."""
        answer = self.law.evaluate(self.t + ahead, self.state(ahead), self.y(self.t + ahead))
        return np.array([answer.residuals, answer.rates])

    def velocity_rates(self) -> Any:
        rates = dict(
            zip(
                self.machine.description.state_names,
                self.machine.derivatives(self.t, self.x, self.u),
                strict=False,
            )
        )
        return np.array([rates[name] for name in self.machine.description.velocities])

    def terms(self) -> dict[str, Any]:
        return self.law.terms(self.t, self.x, self.y(self.t))


H = 0.01  # s, step of the differences: truncation and rounding both below 1e-8


# the packaged programs: tests/conformance/test_programs.py
@pytest.mark.parametrize("name", ["place_and_turn", "cart_place", "hitch_and_yaw"])
def test_terms_are_differences_along_the_motion_and_solved_for(laws: Any, name: str, rng: Any) -> None:
    for _ in range(5):
        sample = Sample(laws(name), rng)
        law, terms = sample.law, sample.terms()
        values = np.array([sample.residuals(i * H) for i in range(-3, 4)])
        second = np.array(law.description.relative_degrees) == 2
        first = np.tensordot(FIRST, values[:, 0], 1) / H
        assert_allclose(values[3, 1][second], first[second], rtol=0, atol=1e-8)
        top = terms["J"] @ sample.velocity_rates() + terms["delta"]
        expected = np.where(second, np.tensordot(SECOND, values[:, 0], 1) / H**2, first)
        assert_allclose(top, expected, rtol=0, atol=1e-7)
        # a few roundings of entries up to 100
        assert_allclose(terms["W"] @ sample.u + terms["b"], top, rtol=0, atol=1e-12)
        law.K[:] = rng.normal(size=law.K.shape)  # any gains, coupled ones too
        answer = law.evaluate(sample.t, sample.x, sample.y(sample.t))
        wanted = -law.K[0] @ terms["f"] - law.K[1] @ terms["f_dot"] - terms["b"]
        solved, condition = np.linalg.solve(terms["W"], wanted), np.linalg.cond(terms["W"], 1)
        assert answer.status == 0
        assert_allclose(answer.inputs, solved, rtol=0, atol=1e-14 * np.abs(solved).max() * condition + 1e-14)
        if len(wanted) > 1:  # of one residual nothing is measured
            assert answer.condition == pytest.approx(condition, rel=1e-14 * condition + 1e-13)


def test_hitch_and_speed_have_the_printed_W_their_degrees_and_gains(laws: Any, agree_in_print: Any) -> None:
    law = laws("hitch_and_speed")
    terms = law.terms(0.0, law.machine.state({"psi": 0.7, "phi": 0.6}), np.zeros(law.goal_layout.size))
    agree_in_print(terms["W"].ravel(), "2.404059617, -4.396386946, 1.764237923, 1.764237923")
    assert law.description.relative_degrees == (2, 1)
    law.stabilise({"hitch": 3.0, "speed": 5.0})  # a double and a single root
    assert_allclose(law.K, [np.diag([9.0, 5.0]), np.diag([6.0, 0.0]), np.zeros((2, 2))])


@pytest.mark.parametrize("phi", [0.0, 1e-10])
def test_lost_rank_is_reported_with_condition_and_remedy(laws: Any, phi: float) -> None:
    law = laws("hitch_and_yaw")
    law = law.started(0.0, law.machine.state({}), np.zeros(law.goal_layout.size), {})
    law.stabilise({"hitch": 2.0, "yaw": 2.0})
    answer = law.evaluate(0.0, law.machine.state({"phi": phi, "V": 0.3}), np.zeros(law.goal_layout.size))
    assert answer.status == -1
    text = law.explain(answer)
    assert f"the servo-constraints hitch, yaw lost rank (condition {answer.condition:.3g})" in text
    assert "choose another program or another initial state" in text


def test_dependent_or_unreached_constraints_are_reported(laws: Any) -> None:
    law = laws("same_thing_twice")
    law.stabilise({f"f{i}": 1.0 for i in range(3)})
    assert law.evaluate(0.0, law.machine.state({"x": 1.0, "psi": 0.4}), np.zeros(0)).status == -1
    law = laws("pole_angle")
    law.stabilise({"angle": 2.0})
    assert law.evaluate(0.0, law.machine.state({"theta": np.pi / 2, "w": 0.1}), np.zeros(0)).status == -1


@pytest.fixture(scope="module")
def cart(small: ModuleType) -> Equations:
    return derive(small.cart_pole())


def refused(cart: Equations, *rows: Any, **others: Any) -> str:
    return refusal(ModelError, lambda: law_source(derive_servo(cart, Program("try", "", rows, **others))))


def test_residuals_that_no_law_can_hold_are_refused_with_the_remedy(cart: Equations) -> None:
    x, goal = cart.model["x"], target("goal", "")
    text = refused(cart, residual("speed", cart.model["v"] - goal.derivative(8), ""), targets=(goal,))
    assert "program try needs derivative 9 of a target or signal, which has at most 8" in text
    assert "define the residual with fewer rates" in text
    text = refused(cart, residual("place", sympy.sign(x) * x**2, ""))  # a kink
    assert "cannot be compiled (a derivative that does not exist" in text
    assert "a smooth form" in text
    name = signal("theta", "", "rad", default="0")  # a state of the machine
    assert "theta" in refused(cart, residual("place", x - name, ""), signals=(name,))


def test_residual_fixed_by_passive_constraints_is_refused() -> None:
    model = trailer_model()
    sideways = model.constraints[0].row  # n(psi) . O1'
    with pytest.raises(ModelError, match="the passive constraints fix it already; give a residual"):
        derive_servo(derive(model), Program("sideways", "", (residual("sideways", sideways, "", "m/s"),)))
