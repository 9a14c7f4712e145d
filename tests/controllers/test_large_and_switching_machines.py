"""Goals on machines that are straight-line programs, and on machines with forces that switch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sympy import Abs, Max, Piecewise, cos, sin

from servonode.controllers import Program, residual
from servonode.controllers.engine.servo import Servo, derive_servo
from servonode.mechanics import Model, ModelError, body, coordinate, first_order, input_, trig_reduce, velocity
from servonode.mechanics.derive import derive
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.straight_line import auxiliaries_of

SPRINGS = {
    "smooth": lambda d: 30 * d,
    "kink": lambda d: 30 * d + 20 * Max(0, d - 0.1),
    "square": lambda d: 30 * d + 20 * Piecewise(((d - 0.1) ** 2, d > 0.1), (0, True)),
    "absolute": lambda d: 30 * d + 20 * d * Abs(d),
    "cube": lambda d: 30 * d + 20 * Piecewise(((d - 0.1) ** 3, d > 0.1), (0, True)),
}


def carts() -> Model:
    """Two carts, the second moved by a velocity through a product of sums."""
    x, y = coordinate("x", "first", "m"), coordinate("y", "second", "m")
    v, w = velocity("v", "first speed", "m/s"), velocity("w", "second speed", "m/s")
    kinematics = {x: v, y: (1 + x**2 / 2) * (w + v * sin(y)) * (2 + cos(x + y))}
    bodies = (body("first", mass=2.0, velocity=(v,)), body("second", mass=3.0, velocity=(w,)))
    inputs = {input_("F", "force", "N"): v, input_("P", "force", "N"): w}
    return Model(
        "carts", "", coordinates=(x, y), kinematics=kinematics, velocities=(v, w), bodies=bodies, inputs=inputs
    )


def joint(spring: str, motor: bool) -> Model:
    """A link on an elastic joint, behind the inertia of a motor, which has a current or not."""
    q, th = coordinate("q", "link", "rad"), coordinate("th", "motor", "rad")
    force = SPRINGS[spring](th - q)
    i, u = first_order("i", "current", "A"), input_("u", "voltage or torque", "V")
    forces, rates = [(force, q.rate), (-force, th.rate)], {}
    if motor:
        forces, rates = [*forces, (i / 2, th.rate)], {i: u - i - th.rate}
    return Model(
        "joint", "", coordinates=(q, th), kinetic=(q.rate**2 + th.rate**2) / 2, forces=forces, first_order=rates,
        inputs={u: 0 if motor else th.rate},
    )  # fmt: skip


def law(model: Model, name: str) -> Servo:
    q = next(each for each in model.coordinates if each.name == name)
    return derive_servo(derive(model), Program(name="p", description="", residuals=(residual("r", q, "", ""),)))


@pytest.mark.parametrize(("motor", "spring", "degree"), [
    (False, "smooth", 4), (False, "square", 4), (False, "absolute", 4), (True, "smooth", 5), (True, "cube", 5),
])  # fmt: skip
def test_forces_that_switch_smoothly_enough_have_a_law(motor: bool, spring: str, degree: int) -> None:
    assert law(joint(spring, motor), "q").relative_degrees == (degree,)


@pytest.mark.parametrize(("motor", "spring", "order"), [
    (False, "kink", 3), (True, "kink", 3), (True, "square", 4), (True, "absolute", 4),
])  # fmt: skip
def test_a_derivative_below_the_last_must_not_jump(motor: bool, spring: str, order: int) -> None:
    with pytest.raises(ModelError, match=rf"residual r: its derivative of order {order}, .*jumps where .*q.* = 0"):
        law(joint(spring, motor), "q")


def test_drift_on_a_large_machine_is_the_rate_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """By central differences of f and f' along q' at fixed velocities."""
    monkeypatch.setattr(trig_reduce, "LARGEST", 0)
    servo = law(carts(), "y")
    model, step = servo.equations.model, 1e-5
    assert auxiliaries_of(servo.f_dot[0]), "not a straight-line program"
    start = dict(zip(model.state, ([0.3], [0.5], [0.7], [0.2]), strict=True))
    (rates,) = at_states([servo.equations.rates[q] for q in model.coordinates], _arrays(start))
    along: dict[Any, float] = dict(zip(model.coordinates, rates, strict=True))
    places = {each: np.array(value) + step * along.get(each, 0.0) * np.array([-1, 1]) for each, value in start.items()}
    before, after = at_states([servo.f[0], servo.f_dot[0]], places)
    found = at_states([servo.f_dot[0], servo.delta[0]], _arrays(start))[0]
    np.testing.assert_allclose(found, (after - before) / (2 * step), rtol=1e-7)
    assert abs(found[1]) > 0.1


def test_the_jump_in_a_definition_of_a_large_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trig_reduce, "LARGEST", 0)
    model = carts()
    x, y = model.coordinates
    jumping = (1 + y**2) * (2 + Piecewise((x, x > 1), (0, True)))
    with pytest.raises(ModelError, match=r"the force of the potential on x_dot jumps where 1 - x = 0"):
        derive(replace(model, potential=jumping * (3 + y)))


def _arrays(values: dict[Any, Any]) -> dict[Any, Any]:
    return {each: np.array(value) for each, value in values.items()}
