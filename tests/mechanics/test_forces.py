"""Known forces: tyre curves against a bicycle model by hand, a wall that only pushes, what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from sympy import Heaviside, Max, Piecewise, atan2, cos, exp, sin, tanh

import servonode
from servonode.mechanics import Model, ModelError, coordinate, input_, output, parameter, sensor, time, velocity
from servonode.mechanics.derivation import Derivation
from servonode.mechanics.derive import derive
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.machine import Machine
from servonode.mechanics.observer_source import observer_source
from servonode.mechanics.straight_line import diff

HERE = Path(__file__)
Flow = Callable[..., Any]
TYRE = {"m": 1200.0, "I": 1500.0, "a": 1.1, "b": 1.4, "C": 9000.0, "s": 0.12}


def bicycle() -> Model:
    """A car on two wheels whose lateral forces saturate with the slip angle; driven, and steered by a torque."""
    x, y = coordinate("x", "position", "m"), coordinate("y", "position", "m")
    psi = coordinate("psi", "heading", "rad")
    m, I = parameter("m", "mass", "kg", default=1200.0), parameter("I", "inertia", "kg m^2", default=1500.0)  # noqa: E741
    a, b = parameter("a", "to the front axle", "m", default=1.1), parameter("b", "to the rear axle", "m", default=1.4)
    C = parameter("C", "largest lateral force of an axle", "N", default=9000.0)
    s = parameter("s", "slip angle where it saturates", "rad", default=0.12)
    delta = parameter("delta", "steering angle", "rad", default=0.0)
    F, N = input_("F", "drive", "N"), input_("N", "yaw torque", "N m")
    ahead = x.rate * cos(psi) + y.rate * sin(psi)
    left = y.rate * cos(psi) - x.rate * sin(psi)
    front = (left + a * psi.rate) * cos(delta) - ahead * sin(delta)
    along_front = (left + a * psi.rate) * sin(delta) + ahead * cos(delta)
    rear = left - b * psi.rate
    return Model(
        name="bicycle",
        description="car on two tyres",
        parameters=(m, I, a, b, C, s, delta),
        coordinates=(x, y, psi),
        kinetic=(m * (x.rate**2 + y.rate**2) + I * psi.rate**2) / 2,
        inputs={F: ahead, N: psi.rate},
        forces=((-C * tanh(atan2(front, along_front) / s), front), (-C * tanh(atan2(rear, ahead) / s), rear)),
    )


def by_hand(state: Any, F: float, N: float, delta: float) -> Any:
    """Newton and Euler in the car's axes."""
    _, _, psi, x_dot, y_dot, w = state
    p = TYRE
    c, s = np.cos(psi), np.sin(psi)
    u, v = x_dot * c + y_dot * s, y_dot * c - x_dot * s
    slip_front = np.arctan2(v + p["a"] * w, u) - delta
    slip_rear = np.arctan2(v - p["b"] * w, u)
    front, rear = (-p["C"] * np.tanh(slip / p["s"]) for slip in (slip_front, slip_rear))
    along, across = (F - front * np.sin(delta)) / p["m"], (front * np.cos(delta) + rear) / p["m"]
    turn = (p["a"] * front * np.cos(delta) - p["b"] * rear + N) / p["I"]
    return [x_dot, y_dot, w, along * c - across * s, along * s + across * c, turn]


@pytest.fixture(scope="module")
def car(small: ModuleType) -> Machine:
    found: Machine = small.machine(bicycle, {}, HERE)
    return found


def test_a_car_on_saturating_tyres_moves_as_newton_and_euler_say(car: Machine, rng: np.random.Generator) -> None:
    steered = car.with_parameters({"delta": 0.3})
    for _ in range(20):
        psi, v, w, F, N = rng.normal(size=5)
        state = np.array([1.0, 2.0, psi, 9 * np.cos(psi) - v * np.sin(psi), 9 * np.sin(psi) + v * np.cos(psi), w])
        rates = steered.derivatives(0.0, np.array([*state, 0.0]), np.array([900 * F, 700 * N]))
        assert_allclose(rates[:6], by_hand(state, 900 * F, 700 * N, 0.3), rtol=1e-12, atol=1e-12)


def test_the_work_of_tyres_is_in_the_energy_balance(car: Machine, flow: Flow) -> None:
    x0 = np.array([0.0, 0.0, 0.3, 20.0, 2.0, 0.6, 0.0])
    (x,) = flow(car.with_parameters({"delta": 0.05}), x0, [2.0], np.array([500.0, 200.0])).T
    lost = car.energy(2.0, x) - car.energy(0.0, x0)
    assert lost == pytest.approx(x[6], rel=1e-9)
    assert lost < -1000.0


def test_a_law_knows_the_tyres() -> None:
    """The inputs that the law finds give the motion by hand f' = -lambda f and f'' = -2 lambda f' - lambda^2 f."""
    stated = {"speed": "x_dot*cos(psi) + y_dot*sin(psi) - 15.5", "heading": "psi - 0.2*sin(t)"}
    gains = {"lambda": 3.0}
    loop = servonode.load(
        {"run": {"duration": 1.0}, "plant": {"machine": bicycle}, "controller": {"residuals": stated, "gains": gains}}
    )
    psi, x_dot, y_dot, w, t = 0.1, 15.0, 0.5, 0.4, 0.7
    start = {"x_dot": x_dot, "y_dot": y_dot, "psi": psi, "psi_dot": w}
    u = loop.law(t, start)
    rates = by_hand([0.0, 0.0, psi, x_dot, y_dot, w], u["F"], u["N"], 0.0)
    ahead, left = x_dot * np.cos(psi) + y_dot * np.sin(psi), y_dot * np.cos(psi) - x_dot * np.sin(psi)
    speeding = rates[3] * np.cos(psi) + rates[4] * np.sin(psi) + left * w
    assert speeding == pytest.approx(-3.0 * (ahead - 15.5), rel=1e-11)
    f, f_dot = psi - 0.2 * np.sin(t), w - 0.2 * np.cos(t)
    assert rates[5] + 0.2 * np.sin(t) == pytest.approx(-6.0 * f_dot - 9.0 * f, rel=1e-11)


def block(*, forces: Any, **more: Any) -> Model:
    """A mass on a line with known forces."""
    m, k = parameter("m", "mass", "kg", default=2.0), parameter("k", "stiffness", "N/m", default=300.0)
    gap = parameter("gap", "place of the wall", "m", default=0.0)
    x, y = coordinate("x", "place", "m"), coordinate("y", "height", "m")
    kinetic = m * (x.rate**2 + y.rate**2) / 2
    return Model(
        "block",
        "a block",
        kinetic,
        parameters=(m, k, gap),
        coordinates=(x, y),
        forces=forces(SimpleNamespace(x=x, y=y, k=k, gap=gap)),
        **more,
    )


def walls() -> Model:
    """Along x a wall that pushes, drag against the square of the speed, and a thrust that dies away."""
    return block(
        forces=lambda s: (
            (-s.k * Max(0, s.x - s.gap), s.x.rate),
            (-sympy.sign(s.x.rate) * s.x.rate**2, s.x.rate),
            (5 * exp(-time), s.x.rate),
        )
    )


def test_a_wall_pushes_and_never_pulls(small: ModuleType, flow: Flow) -> None:
    machine = small.machine(walls, {"gap": 0.2}, HERE)

    def by_hand(t: float, z: Any) -> Any:
        push = -300.0 * max(0.0, z[0] - 0.2) - np.sign(z[1]) * z[1] ** 2 + 5 * np.exp(-t)
        return [z[1], push / 2.0]

    wanted = solve_ivp(by_hand, (0.0, 2.0), [0.0, 1.0], method="DOP853", rtol=1e-12, atol=1e-12, max_step=0.01).y[:, -1]
    x = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    machine.advancer("rk4")(0, 20_000, 100_000, x, np.zeros(0), machine.c)
    assert_allclose([x[0], x[2]], wanted, atol=1e-7)  # the kink is met within a step
    assert machine.energy(2.0, x) - 1.0 == pytest.approx(x[4], abs=1e-9)


def test_the_potential_of_a_wall_keeps_its_energy(small: ModuleType) -> None:
    def bouncing() -> Model:
        stated = block(forces=lambda _: ())
        _, k, gap = stated.parameters
        x, _ = stated.coordinates
        potential = Piecewise((k * (x - gap) ** 2 / 2, x > gap), (0, True))
        pushing = output("push", "of the wall", Piecewise((-k * (x - gap), x > gap), (0, True)), "N")
        return block(forces=lambda _: (), potential=potential, outputs=(pushing,))

    machine = small.machine(bouncing, {}, HERE)
    for place, force in ((0.5, -150.0), (-0.5, 0.0)):
        x = np.array([place, 0.0, 0.3, 0.0, 0.0])
        assert machine.derivatives(0.0, x, np.zeros(0))[2] == force / 2.0
        assert machine.outputs(0.0, x, np.zeros(0)) == {"push": force}
        assert machine.energies(0.0, x)[1] == 150.0 * max(place, 0.0) ** 2


JUMPS: dict[str, Callable[..., Any]] = {
    "sign": lambda s: ((-s.k * sympy.sign(s.x.rate), s.x.rate),),
    "step": lambda s: ((s.k * Heaviside(s.x - s.gap), s.x.rate),),
    "branches": lambda s: ((Piecewise((-s.k * s.x, s.x > s.gap), (0, True)), s.x.rate),),
    "product": lambda s: ((s.k * s.y * Heaviside(sin(s.x)), s.x.rate),),
    "far": lambda s: ((Piecewise((0, s.x < 2000), (1, True)), s.x.rate),),
}


@pytest.mark.parametrize("kind", JUMPS)
def test_a_force_that_jumps_is_refused_with_the_place_and_the_remedy(kind: str) -> None:
    with pytest.raises(ModelError, match="the force on x_dot jumps where") as caught:
        derive(block(forces=JUMPS[kind]))
    assert "let both sides agree there, or take a smooth form such as tanh(v/v_s) for sign(v)" in str(caught.value)


SMOOTH: dict[str, Callable[..., Any]] = {
    "wall": lambda s: ((s.k * Heaviside(s.x - s.gap) * (s.x - s.gap), s.x.rate),),
    "root": lambda s: ((-s.k * Piecewise((sympy.sqrt(s.x), s.x > 0), (0, True)), s.x.rate),),
    "dead zone": lambda s: (
        (-s.k * Piecewise((s.x - 1, s.x > 1), (s.x + 1, s.x < -1), (0, True)), s.x.rate),
        (-Piecewise((0, (s.x < 0) | (s.x.rate < 0)), (s.x * s.x.rate, True)), s.x.rate),
    ),
}


@pytest.mark.parametrize("kind", SMOOTH)
def test_a_force_with_a_kink_is_taken(kind: str) -> None:
    assert derive(block(forces=SMOOTH[kind])).h_r[0] != 0


SLACK: dict[str, Callable[..., Any]] = {
    "backlash": lambda x, p: -100 * Piecewise((x - p, x > p), (x + p, x < -p), (0, True)),
    "saturation": lambda x, p: -2 * Max(-1, sympy.Min(1, x.rate / p)),
    "clutch": lambda x, p: -2 * Piecewise((1, x.rate > p), (-1, x.rate < -p), (x.rate / p, True)),
    "variant": lambda x, p: x * Piecewise((1, p > 3), (2, True)),
}


@pytest.mark.parametrize("kind", SLACK)
@pytest.mark.parametrize("bounds", [{"above": 0}, {}], ids=["positive", "of any sign"])
def test_a_force_that_switches_where_a_parameter_says_is_taken_for_its_signs(kind: str, bounds: Any) -> None:
    x, p = coordinate("x", "place", "m"), parameter(f"{kind}_{len(bounds)}", "width", default=0.1, **bounds)
    model = derive(
        Model("m", "m", x.rate**2, coordinates=(x,), parameters=(p,), forces={SLACK[kind](x, p): x.rate})
    ).model
    signs = [(each.margin, each.requirement.text) for each in model.requirements]
    jumps = not bounds and kind in ("backlash", "clutch")
    assert signs == ([(p, "else machine m: the force on x_dot jumps")] if jumps else [])


def test_a_force_that_jumps_where_a_parameter_says_is_refused_whatever_its_bounds() -> None:
    x, p = coordinate("x", "place", "m"), parameter("edge", "place of a step", default=0.1, above=0)
    for force in (Heaviside(x - p), Piecewise((x / p, x > p), (0, True)), Piecewise((x, x > p), (0.1, True))):
        with pytest.raises(ModelError, match="the force on x_dot jumps where"):
            derive(Model("m", "m", x.rate**2, coordinates=(x,), parameters=(p,), forces={force: x.rate}))


def test_a_motion_under_forces_with_kinks_is_linearised() -> None:
    """The slope of -k max(0, x) - sign(v) v^2 by x and v, as an observer takes it."""
    model = walls()
    bias = derive(model).h_r[0]
    (x, _), (v, _) = model.coordinates, model.velocities
    at = {model.parameters[0]: 2.0, model.parameters[1]: 300.0, model.parameters[2]: 0.0, time: 0.0}
    for place, speed, by_x, by_v in ((0.5, 2.0, 300.0, 4.0), (-0.5, -2.0, 0.0, 4.0)):
        states = {symbol: np.array([value]) for symbol, value in {**at, x: place, v: speed}.items()}
        assert_allclose(at_states([diff(bias, x), diff(bias, v)], states), [[by_x, by_v]])
    sensed = replace(model, sensors=(sensor("gauge", "of the place", x, "m"),))
    assert "slopes" in observer_source(Derivation(sensed))


def refusal(forces: Any) -> str:
    with pytest.raises(ModelError) as caught:
        derive(block(forces=forces))
    return str(caught.value)


def test_equal_forces_in_a_mapping_are_refused_and_pairs_taken() -> None:
    x, y = coordinate("x", "place", "m"), coordinate("y", "height", "m")
    kinetic = (x.rate**2 + y.rate**2) / 2
    with pytest.raises(ModelError, match="two of forces= are the same expression") as caught:
        Model("twins", "two", kinetic, coordinates=(x, y), forces={-time: x.rate, -1 * time: y.rate})
    assert "give pairs, forces=((expression, rate), ...)" in str(caught.value)
    pairs = Model("twins", "two", kinetic, coordinates=(x, y), forces=[(-time, x.rate), (-time, y.rate)])
    assert list(derive(pairs).h_r) == [time, time]


def test_forces_that_cannot_be_are_refused_with_the_remedy() -> None:
    u, v = input_("u", "", "N"), velocity("v", "")
    assert "forces= is neither a mapping nor pairs" in refusal(lambda _: (1.0, 2.0))
    assert "which is not linear in rates; give a rate such as x.rate" in refusal(lambda s: ((1, s.x),))
    assert "'u', which the model does not list" in refusal(lambda s: ((u, s.x.rate),))
    assert "the rate of a force contains 'v'" in refusal(lambda s: ((s.x, s.x.rate + v),))
    assert "is not an inequality" in refusal(lambda s: ((Piecewise((s.x, sympy.Ne(s.x, 0)), (0, True)), s.x.rate),))
    assert "end it with (value, True)" in refusal(lambda s: ((Piecewise((s.x, s.x > 0)), s.x.rate),))
