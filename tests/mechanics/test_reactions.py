"""Machines whose reactions are determined by stabilised constraints: against minimal forms, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from sympy import Abs, cos, sin

from servonode.definitions import cache
from servonode.mechanics import (
    Model,
    ModelError,
    before,
    condition,
    constraint,
    coordinate,
    derivative,
    input_,
    jump,
    output,
    parameter,
    reaction,
    stabilised,
    time,
    velocity,
)
from servonode.mechanics.changes import Changes, changed
from servonode.mechanics.derive import derive
from servonode.mechanics.machine import Machine, load_machine
from tests.helpers.machines import fault_text

G, L, LAM = 9.81, 0.7, 4.0


def rod(coupled: bool = True, **changes: Any) -> Model:
    """A point mass on a rod from the origin, in Cartesian coordinates; the rod's force along it is the reaction.

    `coupled` gives the kinetic energy a mixed term, so that the mass matrix is not diagonal.
    """
    x, y = coordinate("x", "place across", "m", start=L), coordinate("y", "height", "m")
    m, g = parameter("m", "mass", "kg", default=1.3, above=0), parameter("g", "gravity", "m/s^2", default=G)
    l = parameter("l", "length", "m", default=L, above=0)  # noqa: E741
    lam = parameter("lam", "rate of the constraint", "1/s", default=LAM, at_least=0)
    S, F = reaction("S", "force of the rod along it", "N"), input_("F", "force across", "N")
    f = (x**2 + y**2 - l**2) / 2
    row = derivative(derivative(f)) + 2 * lam * derivative(f) + lam**2 * f
    mixed = m * x.rate * y.rate / 5 if coupled else 0
    stated: dict[str, Any] = {
        "name": "rod",
        "description": "point mass on a rod",
        "kinetic": m * (x.rate**2 + y.rate**2) / 2 + mixed,
        "potential": m * g * y,
        "parameters": (m, g, l, lam),
        "coordinates": (x, y),
        "inputs": {F: x.rate},
        "reactions": {S: (x * x.rate + y * y.rate) / l},
        "stabilised": (stabilised("length", "half the square of the length", f, row, "m^2"),),
        "outputs": (
            output("a_x", "acceleration across", x.acceleration, "m/s^2"),
            output("size", "size of the force", Abs(S), "N"),
        ),
    }
    return Model(**{**stated, **changes})


def pendulum(coupled: bool = True) -> Model:
    """The same machine by its angle from the downward vertical, and its multiplier form."""
    x, y = coordinate("x", "place across", "m"), coordinate("y", "height", "m")
    a, w = coordinate("a", "angle", "rad"), velocity("w", "rate of the angle", "rad/s")
    m, g = parameter("m", "mass", "kg", default=1.3), parameter("g", "gravity", "m/s^2", default=G)
    l = parameter("l", "length", "m", default=L)  # noqa: E741
    F = input_("F", "force across", "N")
    mixed = m * x.rate * y.rate / 5 if coupled else 0
    return Model(
        name="pendulum",
        description="pendulum",
        kinetic=m * (x.rate**2 + y.rate**2) / 2 + mixed,
        potential=m * g * y,
        parameters=(m, g, l),
        kinematics={a: w, x: l * cos(a) * w, y: l * sin(a) * w},
        velocities=(w,),
        inputs={F: x.rate},
        constraints=(
            constraint("N_x", "of x", x.rate - l * cos(a) * a.rate),
            constraint("N_y", "of y", y.rate - l * sin(a) * a.rate),
        ),
        outputs=(output("a_x", "acceleration across", x.acceleration, "m/s^2"),),
    )


def machine(build: Callable[[], Model], name: str) -> Machine:
    derivation = cache.code_digest("mechanics", "mechanics.machine_source")
    return load_machine(cache.key_of("test", name, derivation, Path(__file__).read_text()), build, {})


@pytest.mark.parametrize("coupled", [False, True])
def test_on_the_constraint_motion_and_force_are_those_of_the_multiplier_form(coupled: bool) -> None:
    held, minimal = machine(partial(rod, coupled), f"rod{coupled}"), machine(partial(pendulum, coupled), f"p{coupled}")
    rng = np.random.default_rng(1)
    for _ in range(5):
        angle, rate, u = rng.uniform(-3, 3), rng.normal(), rng.normal(size=1)
        direction, across = np.array([np.sin(angle), -np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])
        x = held.state(dict(zip(("x", "y", "x_dot", "y_dot"), [*(L * direction), *(L * rate * across)], strict=True)))
        of = held.outputs(0.0, x, u)
        reference = minimal.outputs(0.0, minimal.state({"a": angle, "w": rate}), u)
        assert of["a_x"] == pytest.approx(reference["a_x"], abs=1e-12)
        assert_allclose(of["S"] * direction, [reference["N_x"], reference["N_y"]], atol=1e-11)
        assert of["size"] == abs(of["S"])


def test_off_the_constraint_the_residual_obeys_its_equation() -> None:
    held, rng = machine(rod, "rodTrue"), np.random.default_rng(2)
    for _ in range(5):
        x = np.append(rng.normal(size=4), 0.0)
        rates = held.derivatives(0.0, x, rng.normal(size=1))
        f, f_dot = (x[:2] @ x[:2] - L**2) / 2, x[:2] @ x[2:4]
        f_ddot = x[2:4] @ x[2:4] + x[:2] @ rates[2:4]
        assert f_ddot == pytest.approx(-2 * LAM * f_dot - LAM**2 * f, abs=1e-11)
        assert_allclose(held.constraint_residual(0.0, x), [f], atol=1e-15)


@pytest.mark.parametrize("coupled", [False, True])
def test_the_energy_changes_by_the_work_of_inputs_and_reactions_off_the_constraint_too(coupled: bool) -> None:
    held = machine(partial(rod, coupled), f"rod{coupled}")
    x, u = held.state({"x": 0.8, "y": 0.1, "x_dot": 0.4}), np.array([0.3])
    start, step = held.energy(0.0, x), held.stepper("rk4")
    errors = []
    for n in (100, 200):
        moved = x.copy()
        for k in range(n):
            step(k / n, moved, u, held.c, 1 / n)
        errors.append(abs(held.energy(1.0, moved) - start - moved[-1]))
    assert errors[1] < 1e-6
    assert 12 < errors[0] / errors[1] < 20  # fourth order


def test_a_parameter_that_varies_acts_with_its_rates() -> None:
    def build() -> Model:
        return changed(rod(coupled=False), Changes(varying={"l": "0.7 - 0.1*t - 0.05*t**2"}))

    held, t = machine(build, "shortened"), 0.3
    l, rate, second = 0.7 - 0.1 * t - 0.05 * t**2, -0.1 - 0.1 * t, -0.1  # noqa: E741
    x = held.state({"x": l, "y": 0.0, "x_dot": rate, "y_dot": 0.9})
    rates = held.derivatives(t, x, np.zeros(1))
    assert x[2] ** 2 + x[3] ** 2 + l * rates[2] == pytest.approx(rate**2 + l * second, abs=1e-12)


def follower() -> Model:
    """A mass that is pushed to keep pace with a phase whose rate is itself a reaction: rows that hang together."""
    x, y, p = coordinate("x", "x", "m"), coordinate("y", "y", "m"), coordinate("p", "phase")
    m = parameter("m", "mass", "kg", default=2.0)
    A, B, U = reaction("A", "force", "N"), reaction("B", "force", "N"), reaction("U", "rate of the phase", "1/s")
    f = (x - cos(p), y - sin(p), x**2 + y**2 - 1)
    rows = (derivative(x.rate + f[0]) + f[0], derivative(y.rate + f[1]) + f[1], U - 1 + A / 10 - B / 20)
    return Model(
        name="follower",
        description="follower",
        kinetic=m * (x.rate**2 + y.rate**2) / 2,
        parameters=(m,),
        coordinates=(x, y, p),
        kinematics={p: U},
        reactions={A: x.rate, B: y.rate, U: 0},
        stabilised=tuple(
            stabilised(f"row{i}", "row", each, row) for i, (each, row) in enumerate(zip(f, rows, strict=True))
        ),
        outputs=(output("pace", "rate of the phase", p.rate, "1/s"),),
        faults=(condition(A < 0, "pushed forward"),),
    )


def test_rows_that_hang_together_are_solved_together_and_may_move_a_coordinate() -> None:
    held, rng, found = machine(follower, "follower"), np.random.default_rng(3), set()
    names = held.description.state_names
    for _ in range(8):
        x = np.append(rng.normal(size=len(names)), 0.0)
        of = dict(zip(names, x, strict=False))
        A, B, U, pace = held.outputs(0.0, x, np.zeros(0)).values()
        p, m = of["p"], 2.0
        S = np.array([[1 / m, 0, np.sin(p)], [0, 1 / m, -np.cos(p)], [0.1, -0.05, 1.0]])
        right = [-of["x_dot"] - of["x"] + np.cos(p), -of["y_dot"] - of["y"] + np.sin(p), 1.0]
        assert_allclose([A, B, U], np.linalg.solve(S, right), rtol=1e-11)
        assert pace == U
        assert held.derivatives(0.0, x, np.zeros(0))[names.index("p")] == U
        found.add(fault_text(held, x))
        assert fault_text(held, x) == ("" if A < 0 else "pushed forward")
    assert found == {"", "pushed forward"}


def test_derivative_is_the_total_one() -> None:
    x, v, p = coordinate("x", "x"), velocity("v", "v"), parameter("p", "p", default=1)
    found = derivative(x**2 * x.rate * v * p * time)
    product = (x**2, x.rate, v, p, time)
    rates = (2 * x * x.rate, x.acceleration, v.rate, p.rate, 1)
    expected = sum(sympy.Mul(*product) / each * rate for each, rate in zip(product, rates, strict=True))
    assert sympy.expand(found - expected) == 0


def ball() -> Model:
    """A ball that bounces: states are set at the end of the step in which it reached the floor."""
    z, v = coordinate("z", "height", "m", start=1.0), velocity("v", "speed", "m/s")
    m, g = parameter("m", "mass", "kg", default=2.0), parameter("g", "gravity", "m/s^2", default=G)
    e = parameter("e", "restitution", default=0.5)
    return Model(
        name="ball",
        description="bouncing ball",
        kinetic=m * z.rate**2 / 2,
        potential=m * g * z,
        parameters=(m, g, e),
        kinematics={z: v},
        velocities=(v,),
        jumps=(jump(z < 0, {z: before(z), v: -e * v}, "bounce"),),
    )


def test_a_jump_sets_states_at_the_end_of_a_step_and_its_energy_counts_as_work() -> None:
    bouncing = machine(ball, "ball")
    x, step, h = bouncing.state({}), bouncing.stepper("rk4"), 1e-3
    start, k = bouncing.energy(0.0, x), 0
    while x[1] <= 0:
        last = x.copy()
        step(k * h, x, np.zeros(0), bouncing.c, h)
        k += 1
    assert k == int(np.ceil(np.sqrt(2 / G) / h))
    assert x[0] == last[0]
    assert x[1] == pytest.approx(-0.5 * (last[1] - G * h), abs=1e-14)
    assert bouncing.energy(0.0, x) == pytest.approx(start + x[2], abs=1e-12)
    fallen = last[1] * h - G * h**2 / 2
    speed = last[1] - G * h
    assert x[2] == pytest.approx(-2.0 * G * fallen - 0.75 * speed**2, abs=1e-12)


def test_a_jump_sets_rates_as_it_sets_velocities() -> None:
    """Of a coordinate with kinematics of its own, and of one whose rate is itself the state."""

    def in_rates(own: bool) -> Model:
        model = ball()
        z = model.coordinates[0]
        bounce = jump(z < 0, {z: before(z), z.rate: -model.parameters[2] * z.rate}, "bounce")
        kinematics = {} if own else {"kinematics": model.kinematics, "velocities": model.velocities}
        return replace(model, jumps=(bounce,), order=(), **({"kinematics": {}, "velocities": ()} | kinematics))

    ends = []
    for build in (ball, partial(in_rates, False), partial(in_rates, True)):
        bouncing = machine(build, "ball")
        x = bouncing.state({})
        assert bouncing.advancer("rk4")(0, 1000, 1_000_000, x, np.zeros(0), bouncing.c)
        ends.append(x.tolist())
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][1] > 0  # after a bounce
    z = coordinate("z", "height", "m")
    assert before(z.rate) == before(z.own_velocity())


def test_what_a_jump_sets_is_brought_onto_holonomic_constraints() -> None:
    x, y = coordinate("x", "across", "m", start=0.6), coordinate("y", "height", "m", start=0.8)

    def build() -> Model:
        return Model(
            name="rod",
            description="a point on a circle",
            coordinates=(x, y),
            independent=(x,),
            kinetic=(x.rate**2 + y.rate**2) / 2,
            potential=G * y,
            constraints=(constraint("S", "force of the rod", x**2 + y**2 - 1),),
            jumps=(jump(x > 0.7, {x: 0.5, x.rate: -x.rate}, "a stop"),),
        )

    rod = machine(build, "rod")
    state, step = rod.state({"x_dot": 2.0}), rod.stepper("rk4")
    start = rod.energy(0.0, state)
    for k in range(80):
        step(k * 1e-3, state, np.zeros(0), rod.c, 1e-3)
    assert state[2] < 0 < state[0] < 0.7
    assert abs(rod.position_residual(0.0, state)[0]) < 1e-14
    assert rod.energy(0.0, state) == pytest.approx(start + state[3], abs=1e-9)


def refused_models() -> dict[str, dict[str, Any]]:
    """What cannot be, as changes of the rod, by what is said of it."""
    model = rod()
    x, y = model.coordinates
    S = next(iter(model.reactions))
    other, stranger = reaction("T", "another force", "N"), coordinate("q", "q")
    f = x**2 + y**2
    row = derivative(derivative(f)) + f

    def held(row: Any, residual: Any = f) -> dict[str, Any]:
        return {"stabilised": (stabilised("length", "l", residual, row),)}

    def both(first: Any, second: Any) -> dict[str, Any]:
        rows = stabilised("a", "l", f, first), stabilised("b", "l", f, second)
        return {"reactions": {S: x.rate, other: y.rate}, "stabilised": rows}

    return {
        "2 reactions and 1 stabilised constraints; give one for each reaction":
            {"reactions": {**model.reactions, other: x.rate}},
        "constraint length: its row must be linear in reactions and accelerations": held(row + S**2),
        "constraint length: its row must be linear in reactions": held(row + x.acceleration**3),
        "constraint length: its row contains neither a reaction nor an acceleration": held(f),
        "the constraint length contains S, which is not known there": held(row, f + S),
        "no row determines reaction T; let it stand in one": both(S - x, S - y),
        "no row determines reaction S; let it stand in one, or do work where one looks": {"reactions": {S: 0}},
        "the rows of a, b depend on each other, so they leave the reactions undetermined": both(row, 2 * row),
        "reaction S does work on x, which is not linear in rates; give one such as x.rate": {"reactions": {S: x}},
        r"reaction S does work on x_dot\*\*2, which is not linear in rates": {"reactions": {S: x.rate**2}},
        "the multipliers of the former would not know the latter; hold all by reactions":
            {"constraints": (constraint("N", "N", x.rate - y.rate),)},
        "which is not known there; use only states, rates and parameters; faults may contain reactions":
            {"faults": (condition(S < 1, "strong"),)},
        "constraint length contains 'q_dot', which the model does not list": held(row + stranger.rate),
        "x moves with a reaction, so energies, powers and forces must not contain it":
            {"kinematics": {x: S}, "inputs": {}, "outputs": (), **held(S - y)},
        "the jump 'nowhere' sets q, which is not a state; choose from x, y, x_dot, y_dot":
            {"jumps": (jump(x < 0, {stranger: 1}, "nowhere"),)},
    }  # fmt: skip


@pytest.mark.parametrize("text", refused_models())
def test_what_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match=text):
        derive(rod(**refused_models()[text]))


def test_rows_in_coordinates_with_kinematics_are_those_in_their_velocities() -> None:
    """The same machine with velocities of its own: rows speak of x'' all the same."""

    def build() -> Model:
        x, y = coordinate("x", "x", "m", start=L), coordinate("y", "y", "m")
        u, w = velocity("u", "u", "m/s"), velocity("w", "w", "m/s")
        m = parameter("m", "mass", "kg", default=1.3)
        S, f = reaction("S", "force"), (x**2 + y**2 - L**2) / 2
        row = derivative(derivative(f)) + 2 * LAM * derivative(f) + LAM**2 * f
        return Model(
            name="rod",
            description="rod",
            kinetic=m * (x.rate**2 + y.rate**2) / 2,
            potential=m * G * y,
            parameters=(m,),
            kinematics={x: u + w, y: u - w},
            velocities=(u, w),
            reactions={S: x * x.rate + y * y.rate},
            stabilised=(stabilised("length", "l", f, row),),
        )

    held, plain = machine(build, "rod in u and w"), machine(partial(rod, False), "rodFalse")
    x = np.array([0.8, 0.1, 0.4, -0.3])
    found = held.derivatives(0.0, np.array([x[0], x[1], (x[2] + x[3]) / 2, (x[2] - x[3]) / 2, 0.0]), np.zeros(0))
    expected = plain.derivatives(0.0, np.append(x, 0.0), np.zeros(1))
    assert_allclose([found[2] + found[3], found[2] - found[3]], expected[2:4], rtol=1e-12)


def test_a_reaction_on_a_coordinate_that_is_moved_enters_the_energy_balance() -> None:
    """A mass whose height is prescribed, pushed across and upwards by one reaction that keeps its speed across."""

    def build() -> Model:
        x, y, u = coordinate("x", "x", "m"), coordinate("y", "y", "m"), velocity("u", "u", "m/s")
        m = parameter("m", "mass", "kg", default=2.0)
        S, f = reaction("S", "force"), x.rate - 1
        return Model(
            name="lift",
            description="lift",
            kinetic=m * (x.rate**2 + y.rate**2) / 2,
            potential=m * G * y,
            parameters=(m,),
            kinematics={x: u, y: time / 3},
            velocities=(u,),
            reactions={S: x.rate + y.rate},
            stabilised=(stabilised("pace", "p", f, derivative(f) + f),),
        )

    lift = machine(build, "lift")
    x, step = lift.state({}), lift.stepper("rk4")
    start = lift.energy(0.0, x)
    for k in range(100):
        step(k / 100, x, np.zeros(0), lift.c, 0.01)
    assert x[-1] == pytest.approx(lift.energy(1.0, x) - start, abs=1e-9)
