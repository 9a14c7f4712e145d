"""Bodies by their motion: in rates they are kinetic energies, in velocities momentum takes Lagrange's place."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sympy import Matrix, cos, diag, eye, sin

from servonode.mechanics import (
    Model,
    body,
    coordinate,
    input_,
    output,
    parameter,
    vector,
    velocity,
)
from servonode.mechanics.changes import Changes, changed
from servonode.mechanics.derive import derive
from servonode.mechanics.description import packed, unpacked
from servonode.mechanics.machine import Machine
from servonode.mechanics.machine_source import describe

Flow = Callable[..., Any]
A, C, M, L, G = 0.02, 0.03, 1.5, 0.1, 9.81  # of the top: across and along its axis, mass, to its centre, gravity


def top(**changes: Any) -> Model:
    """A heavy symmetric top that turns about a fixed point; n points along its axis, its spin moves no coordinate."""
    n = Matrix([coordinate(f"n{i}", "direction of the axis", start=float(i == 2)) for i in range(3)])
    w = Matrix([velocity(f"w{i}", "angular velocity", "rad/s") for i in range(3)])
    a, c, m, l, g = (  # noqa: E741
        parameter(name, name, default=value) for name, value in zip("acmlg", (A, C, M, L, G), strict=True)
    )
    k = parameter("k", "air drag", "N m s/rad", default=0.0)
    N = [input_(f"N{i}", "torque", "N m") for i in range(3)]
    stated: dict[str, Any] = {
        "name": "top",
        "description": "heavy symmetric top",
        "parameters": (a, c, m, l, g, k),
        "kinematics": dict(zip(n, w.cross(n), strict=True)),
        "velocities": tuple(w),
        "bodies": (body("top", inertia=a * eye(3) + (c - a) * n * n.T, angular_velocity=w),),
        "potential": m * g * l * n[2],
        "dissipation": k * w.dot(w) / 2,
        "inputs": dict(zip(N, w, strict=True)),
        "identities": {"norm": n.dot(n) - 1},
        "outputs": (output("fall", "acceleration of n2", n[2].acceleration),),
    }
    return Model(**{**stated, **changes})


def euler_top() -> Model:
    """The same top in Euler angles, by Lagrange."""
    psi, theta, phi = (coordinate(name, name, "rad") for name in ("psi", "theta", "phi"))
    spin = phi.rate + psi.rate * cos(theta)
    return Model(
        name="euler_top",
        description="heavy symmetric top",
        coordinates=(psi, theta, phi),
        kinetic=0.5 * A * (theta.rate**2 + psi.rate**2 * sin(theta) ** 2) + 0.5 * C * spin**2,
        potential=M * G * L * cos(theta),
    )


@pytest.fixture(scope="module")
def spinning(small: ModuleType) -> Machine:
    return small.machine(top)


def test_a_top_in_velocities_moves_as_one_in_Euler_angles(spinning: Machine, small: ModuleType, flow: Flow) -> None:
    angles = small.machine(euler_top)
    theta, theta_dot, psi_dot, phi_dot = 0.6, 0.4, 1.5, 30.0
    start = {"theta": theta, "theta_dot": theta_dot, "psi_dot": psi_dot, "phi_dot": phi_dot}
    n = np.array([np.sin(theta), 0.0, np.cos(theta)])  # psi = 0 about the vertical, then theta about the y axis
    w = psi_dot * np.array([0.0, 0.0, 1.0]) + theta_dot * np.array([0.0, 1.0, 0.0]) + phi_dot * n
    x = spinning.state({f"n{i}": n[i] for i in range(3)} | {f"w{i}": w[i] for i in range(3)})
    times = [0.3, 1.0, 2.0]
    ours, theirs = flow(spinning, x, times, np.zeros(3)), flow(angles, angles.state(start), times, np.zeros(0))
    psi, theta_at = theirs[0], theirs[1]
    expected = [np.sin(theta_at) * np.cos(psi), np.sin(theta_at) * np.sin(psi), np.cos(theta_at)]
    assert_allclose(ours[:3], expected, rtol=0, atol=1e-10)
    assert spinning.energy(0.0, x) == pytest.approx(angles.energy(0.0, angles.state(start)), rel=1e-14)


def test_steady_precession_keeps_the_tilt(spinning: Machine) -> None:
    theta, precession = 0.5, 2.0
    spin = (M * G * L + A * precession**2 * np.cos(theta)) / (C * precession)  # Goldstein, eq. 5.76
    n = np.array([np.sin(theta), 0.0, np.cos(theta)])
    w = precession * np.array([0.0, 0.0, 1.0]) + (spin - precession * np.cos(theta)) * n
    x = spinning.state({f"n{i}": n[i] for i in range(3)} | {f"w{i}": w[i] for i in range(3)})
    rates = spinning.derivatives(0.0, x, np.zeros(3))
    with pytest.raises(ValueError, match="given in velocities and has no full form"):
        spinning.matrices(0.0, x)
    assert_allclose(rates[3:6], precession * np.cross([0.0, 0.0, 1.0], w), rtol=0, atol=1e-12)
    assert spinning.outputs(0.0, x, np.zeros(3))["fall"] == pytest.approx(0.0, abs=1e-12)


def test_the_spin_of_a_free_top_stays_and_its_energy_is_the_work(spinning: Machine, rng: np.random.Generator) -> None:
    dragging = spinning.with_parameters({"k": 0.01})
    for machine, u in ((spinning, np.zeros(3)), (dragging, np.array([0.1, -0.2, 0.05]))):
        x = machine.state({"n0": 0.6, "n2": 0.8, "w0": 1.0, "w1": -2.0, "w2": 9.0})
        spin, energy = x[:3] @ x[3:6], machine.energy(0.0, x)
        assert machine.advancer("rk4")(0, 4000, 250_000, x, u, machine.c)
        assert machine.energy(1.0, x) - energy == pytest.approx(x[-1], abs=1e-9)
        if machine is spinning:
            assert x[:3] @ x[3:6] == pytest.approx(spin, abs=1e-9)


def test_a_body_in_rates_is_its_kinetic_energy() -> None:
    x, y, psi = (coordinate(name, name) for name in ("x", "y", "psi"))
    m, I = parameter("m", "mass", default=1.0), parameter("I", "inertia", default=1.0)  # noqa: E741
    named = {"name": "plate", "description": "", "coordinates": (x, y, psi), "parameters": (m, I)}
    plate = body("plate", mass=m, velocity=(x.rate, y.rate), inertia=I, angular_velocity=psi.rate)
    stated = Model(**named, kinetic=(m * (x.rate**2 + y.rate**2) + I * psi.rate**2) / 2)
    assert derive(Model(**named, bodies=(plate,))).M == derive(stated).M


def test_a_disturbance_of_an_input_on_a_velocity_acts_as_the_input_does(spinning: Machine, small: ModuleType) -> None:
    def disturbed() -> Model:
        return changed(top(), Changes(disturbance={"N1": "0.2*sin(t)"}))

    machine, t = small.machine(disturbed), 0.7
    x = machine.state({"n0": 0.6, "n2": 0.8, "w0": 1.0, "w1": -2.0, "w2": 9.0})
    u = np.array([0.1, 0.3, 0.0])
    expected = spinning.derivatives(t, x, u + 0.2 * np.sin(t) * np.eye(3)[1])
    assert_allclose(machine.derivatives(t, x, u), expected, rtol=0, atol=1e-12)  # the power, the last entry, as well


# vectors


def top_with_vectors(**changes: Any) -> Model:
    n = vector(coordinate, "n", "direction of the axis", start=(0.0, 0.6, 0.8))
    w = vector(velocity, "w", "angular velocity", "rad/s")
    stated: dict[str, Any] = {
        "name": "top",
        "description": "top",
        "kinematics": dict(zip(n, w.cross(n), strict=True)),
        "velocities": tuple(w),
        "bodies": (body("top", inertia=eye(3) + n * n.T, angular_velocity=w),),
        "identities": {"norm": n.dot(n) - 1},
    }
    return Model(**{**stated, **changes})


def test_the_entries_of_a_vector_go_as_one_list_outside() -> None:
    description = describe(top_with_vectors())
    assert description.state_names == ("n_0", "n_1", "n_2", "w_0", "w_1", "w_2")
    assert description.layout == (("n", 3), ("w", 3))
    assert description.columns[:4] == ("n[0]", "n[1]", "n[2]", "w[0]")
    values = packed(description.layout, [0.0, 0.6, 0.8, 1.0, 2.0, 3.0])
    assert values == {"n": [0.0, 0.6, 0.8], "w": [1.0, 2.0, 3.0]}
    assert unpacked(description.layout, values) == [0.0, 0.6, 0.8, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("size", "value", "text"),
    [(3, 0.5, "a list of 3 numbers"), (3, [1.0, 2.0], "a list of 3 numbers"), (0, [1.0], "a number")],
)
def test_a_vector_of_the_wrong_size_is_refused(size: int, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"is not {text}"):
        unpacked((("n", size),), {"n": value})


@pytest.mark.parametrize("diagonal", [(1, 0), (0, 1)], ids=["differences of squares", "one less squares"])
def test_the_textbook_rotation_matrices_of_a_unit_quaternion_turn_a_body(
    small: ModuleType, diagonal: tuple[int, int]
) -> None:
    """Both usual forms, equal where the stated identity holds; Euler's equations are the reference."""
    q, w = vector(coordinate, "q", "attitude", start=(1, 0, 0, 0)), vector(velocity, "w", "rate", "rad/s")
    A, B, C = (parameter(name, name, "kg m^2", default=value) for name, value in (("A", 1.0), ("B", 2.0), ("C", 3.0)))
    (a, b, c, d), (squares, ones) = q, diagonal
    n = squares * q.dot(q) + ones  # 1 where the identity holds
    R = Matrix(
        [
            [n - 2 * (c * c + d * d), 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), n - 2 * (b * b + d * d), 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), n - 2 * (b * b + c * c)],
        ]
    )
    rates = Matrix([[-b, -c, -d], [a, -d, c], [d, a, -b], [-c, b, a]]) * w / 2
    solid = body("solid", inertia=R * diag(A, B, C) * R.T, angular_velocity=list(R * w))
    model = Model(
        "free",
        "a free body",
        bodies=(solid,),
        kinematics=dict(zip(q, rates, strict=True)),
        velocities=tuple(w),
        parameters=(A, B, C),
        identities={"norm of q": q.dot(q) - 1},
    )
    machine = small.machine(lambda: model, {}, Path(__file__))
    x = np.array([0.5, -0.1, 0.7, 0.5, 0.3, -1.1, 2.0, 0.0])
    expected = [-1.0 * -1.1 * 2.0 / 1.0, 2.0 * 2.0 * 0.3 / 2.0, -1.0 * 0.3 * -1.1 / 3.0]
    assert_allclose(machine.derivatives(0.0, x, np.zeros(0))[4:7], expected, rtol=1e-12)
