"""Closed loops by independent=: a four-bar against Lagrange multipliers by hand, a slider-crank, dead points."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from sympy import cos, sin

import servonode
from servonode.errors import ServonodeError
from servonode.mechanics import Model, constraint, coordinate, input_, parameter, together, velocity
from servonode.mechanics.independent import mobility
from servonode.mechanics.machine import Machine
from servonode.simulation.event_integration import SimulationError
from tests.helpers.machines import fault_text
from tests.helpers.small_machines import refusal_of

HERE = Path(__file__)
Flow = Callable[..., Any]
L1, L2, L3, D, M1, M2, M3, G = 0.3, 0.9, 0.7, 0.8, 1.0, 2.0, 1.5, 9.81


def four_bar() -> Model:
    """Crank, coupler and rocker, uniform bars, their angles from the horizontal."""
    starts = {"a": ("crank", 1.0), "b": ("coupler", 0.4), "c": ("rocker", 1.5)}
    a, b, c = (coordinate(name, f"angle of the {bar}", "rad", start=s) for name, (bar, s) in starts.items())
    l1 = parameter("l1", "length of the crank", "m", default=L1)
    T = input_("T", "torque on the crank", "N m")
    x = -l1 * sin(a) * a.rate - L2 / 2 * sin(b) * b.rate
    y = l1 * cos(a) * a.rate + L2 / 2 * cos(b) * b.rate
    turning = M1 * l1**2 * a.rate**2 / 6 + M2 * L2**2 * b.rate**2 / 24 + M3 * L3**2 * c.rate**2 / 6
    high = M1 * l1 / 2 * sin(a) + M2 * (l1 * sin(a) + L2 / 2 * sin(b)) + M3 * L3 / 2 * sin(c)
    return Model(
        name="four_bar",
        description="four bars",
        kinetic=turning + M2 * (x**2 + y**2) / 2,
        parameters=(l1,),
        coordinates=(a, b, c),
        independent=(a,),
        potential=G * high,
        inputs={T: a.rate},
        constraints=(
            constraint("Fx", "force in the pin", l1 * cos(a) + L2 * cos(b) - L3 * cos(c) - D),
            constraint("Fy", "force in the pin", l1 * sin(a) + L2 * sin(b) - L3 * sin(c)),
        ),
    )


def by_multipliers(q: Any, v: Any, T: float) -> tuple[Any, Any]:
    """q'' and the multipliers, from Lagrange's equations by hand."""
    (a, b, c), (p, r, _) = q, v
    coupling = M2 * L1 * L2 / 2
    M = np.diag([(M1 / 3 + M2) * L1**2, M2 * L2**2 / 3, M3 * L3**2 / 3])
    M[0, 1] = M[1, 0] = coupling * np.cos(a - b)
    force = np.array([
        T - coupling * np.sin(a - b) * r**2 - G * (M1 / 2 + M2) * L1 * np.cos(a),
        coupling * np.sin(a - b) * p**2 - G * M2 * L2 / 2 * np.cos(b),
        -G * M3 * L3 / 2 * np.cos(c),
    ])  # fmt: skip
    lengths = np.array([L1, L2, -L3])
    A = np.array([-lengths * np.sin(q), lengths * np.cos(q)])
    gamma = np.array([lengths * np.cos(q) @ v**2, lengths * np.sin(q) @ v**2])
    system = np.block([[M, -A.T], [A, np.zeros((2, 2))]])
    solution = np.linalg.solve(system, [*force, *gamma])
    return solution[:3], solution[3:]


def closed_at(a: float) -> Any:
    """The angles of coupler and rocker by the law of cosines, the loop not crossed."""
    pin, end = L1 * np.array([np.cos(a), np.sin(a)]), np.array([D, 0.0])
    way = end - pin
    apart = np.hypot(*way)
    direction = np.arctan2(way[1], way[0])
    b = direction + np.arccos((L2**2 + apart**2 - L3**2) / (2 * L2 * apart))
    knee = pin + L2 * np.array([np.cos(b), np.sin(b)]) - end
    return np.array([a, b, np.arctan2(knee[1], knee[0])])


def rates_at(q: Any, p: float) -> Any:
    lengths = np.array([L1, L2, -L3])
    A = np.array([-lengths * np.sin(q), lengths * np.cos(q)])
    return np.array([p, *np.linalg.solve(A[:, 1:], -A[:, 0] * p)])


@pytest.fixture(scope="module")
def bars(small: ModuleType) -> Machine:
    found: Machine = small.machine(four_bar, {}, HERE)
    return found


def test_a_four_bar_has_the_accelerations_and_forces_of_lagrange_multipliers(
    bars: Machine, rng: np.random.Generator
) -> None:
    for a, p, T in rng.uniform(-3, 3, size=(20, 3)):
        q = closed_at(a)
        v = rates_at(q, p)
        wanted, forces = by_multipliers(q, v, T)
        x, u = np.array([*q, p, 0.0]), np.array([T])
        assert_allclose(bars.derivatives(0.0, x, u)[:4], [*v, wanted[0]], rtol=1e-10, atol=1e-10)
        accelerations, found = bars.full(0.0, x, u)
        assert_allclose(accelerations, wanted, rtol=1e-9, atol=1e-9)
        assert_allclose(found, forces, rtol=1e-9, atol=1e-9)


def test_a_four_bar_turns_as_the_multipliers_integrated_by_scipy(bars: Machine) -> None:
    q = closed_at(1.0)

    def motion(_: float, z: Any) -> Any:
        return [*z[3:], *by_multipliers(z[:3], z[3:], 0.2)[0]]

    start = [*q, *rates_at(q, 3.0)]
    wanted = solve_ivp(motion, (0.0, 2.0), start, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    x = np.array([*q, 3.0, 0.0])
    bars.advancer("rk4")(0, 4000, 500_000, x, np.array([0.2]), bars.c)
    assert_allclose(x[:4], wanted[:4], atol=1e-7)
    assert np.abs(bars.position_residual(2.0, x)).max() < 1e-14  # no drift
    assert bars.energy(2.0, x) - bars.energy(0.0, np.array([*q, 3.0, 0.0])) == pytest.approx(x[4], abs=1e-7)
    assert x[4] == pytest.approx(0.2 * (x[0] - 1.0), abs=1e-9)


def stated(**initial: float) -> Any:
    controller = {"residuals": {"crank": "a - 1 - 3*t"}, "gains": {"lambda": 8.0}}
    return {
        "run": {"duration": 0.5}, "plant": {"machine": four_bar, "initial": initial}, "controller": controller,
    }  # fmt: skip


@pytest.mark.slow
def test_a_start_closes_the_loop_and_a_law_turns_the_crank() -> None:
    loop = servonode.load(stated(a=1.3, a_dot=3.0))
    assert_allclose([loop.start[name] for name in "abc"], closed_at(1.3), atol=1e-12)
    crossed = servonode.load(stated(a=1.3, b=-0.9, c=-2.0))
    assert crossed.start["c"] < 0
    run = loop.simulate()
    assert abs(run.residual["crank"][-1]) < 0.05 < abs(run.residual["crank"][0])


def test_a_loop_that_cannot_be_closed_is_refused_with_what_was_kept() -> None:
    wanted = stated(a=0.5)
    wanted["plant"]["parameters"] = {"l1": 2.5}
    with pytest.raises(
        ServonodeError, match=r"plant.initial.*with a = 0.5 the loops \(Fx, Fy\) cannot be closed"
    ) as caught:
        servonode.load(wanted)
    assert "looked for from b = 0.4, c = 1.5; give these near the closed loop" in str(caught.value)


@pytest.mark.slow
def test_a_dead_point_ends_the_run_and_is_named() -> None:
    """A crank of 0.9 m does not go round: coupler and rocker are stretched first."""
    wanted = stated(a=1.0, a_dot=3.0) | {"run": {"duration": 2.0}}
    wanted["plant"]["parameters"] = {"l1": 0.9}
    run = servonode.simulate(wanted)
    assert "dead point: b, c no longer follow from a" in str(run.fault)
    assert abs(np.sin(run.state["b"][-1] - run.state["c"][-1])) < 0.1
    wanted["plant"]["step"], wanted["controller"]["period"] = 0.02, 0.1
    assert servonode.simulate(wanted).fault["name"] == "dead_point"  # passed within a period
    wanted["plant"]["step"] = 0.05
    assert "or its loops met a dead point, where a no longer determine" in str(
        servonode.simulate(wanted).fault
    )  # within a step


def parallelogram() -> Model:
    """Bars of one length: flat, where coupler and rocker are in line and the loop may cross, no row keeps a length."""
    a, b, c = (coordinate(name, "angle", "rad", start=s) for name, s in (("a", 1.5), ("b", 0.0), ("c", 1.5)))
    return Model(
        name="parallelogram",
        description="four bars of one length",
        kinetic=(a.rate**2 + b.rate**2 + c.rate**2) / 2,
        coordinates=(a, b, c),
        independent=(a,),
        inputs={input_("T", "torque on the crank", "N m"): a.rate},
        constraints=(
            constraint("Px", "force in the pin", cos(a) + cos(b) - cos(c) - 1),
            constraint("Py", "force in the pin", sin(a) + sin(b) - sin(c)),
        ),
    )


def through_the_change_point(**run: Any) -> Any:
    controller = {"residuals": {"crank": "a - 1.5 + t"}, "gains": {"lambda": 2.0}, "period": 0.01} | run
    plant = {"machine": parallelogram, "initial": {"a_dot": -1.0}}
    return {"run": {"duration": 2.0}, "plant": plant, "controller": controller}


def test_all_modes_end_at_a_change_point_with_the_fault_dead_point() -> None:
    """Near enough in angles, 0.02 sqrt(2) rad; where a control period is too long for that, after it was passed."""
    loop = servonode.load(through_the_change_point())
    for run in (loop.simulate(), loop.simulate(loop="nodes")):
        assert run.fault["name"] == "dead_point"
        assert run.fault["t"] == pytest.approx(1.48)
        assert np.abs(run.outputs["Px"]).max() < 100
    with pytest.raises(SimulationError, match=r"at t = 1\.471\d* s dead point: b, c no longer follow from a"):
        loop.simulate("continuous")
    report = loop.check()
    assert report.verdict == "no"
    found = [each.text for each in report.findings if each.subject == "zero dynamics"]
    assert "s: dead point: b, c no longer follow from a" in found[0]
    late = servonode.simulate(through_the_change_point(period=0.25, residuals={"crank": "a - 1.5 + 1.1*t"})).fault
    assert (late["name"], late["t"]) == ("dead_point", pytest.approx(1.5))


def test_a_dead_point_is_near_by_its_angle_whatever_the_axes_and_units(small: ModuleType) -> None:
    """A piston in line with its crank, in metres and millimetres: the coordinates differ, the dead point does not."""
    theta, phi, x = slider_crank().coordinates
    for size in (1, 1000):
        rows = (sin(theta) - 4 * sin(phi), x - size * (cos(theta) / 5 + 4 * cos(phi) / 5))
        pins = tuple(constraint(name, "force", row) for name, row in zip(("Fy", "Fx"), rows, strict=True))
        build = partial(slider_crank, independent=(x,), constraints=pins)
        build.__name__ = f"slider_crank_{size}"  # type: ignore[attr-defined]
        found = small.machine(build, {}, HERE)

        def fault(angle: float) -> str:
            return fault_text(found, np.array([angle, np.arcsin(np.sin(angle) / 4), 0.0, 0.0, 0.0]))  # noqa: B023

        assert not fault(0.05)
        assert "dead point: theta, phi no longer follow from x" in fault(0.01)
        assert not fault(-0.05)
        found = found.assembled_at(np.array([0.05, 0.0125, 0.0, 0.0, 0.0]))
        assert not fault(0.05)
        assert "dead point" in fault(-0.05)  # passed


def slider_crank(**change: Any) -> Model:
    theta, phi = coordinate("theta", "crank", "rad"), coordinate("phi", "rod", "rad")
    x = coordinate("x", "piston", "m", start=1.0)
    r, l = sympy.Rational(1, 5), sympy.Rational(4, 5)  # noqa: E741
    rows = {"Fy": r * sin(theta) - l * sin(phi), "Fx": x - r * cos(theta) - l * cos(phi)}
    kinetic = (theta.rate**2 / 50 + 3 * x.rate**2) / 2
    parts = {"coordinates": (theta, phi, x), "independent": (theta,), "constraints": tuple(
        constraint(name, "force", row) for name, row in rows.items())}  # fmt: skip
    return Model("slider_crank", "a piston", kinetic, **parts | change)


refusal = partial(refusal_of, slider_crank)


def test_independent_coordinates_that_cannot_be_are_refused_with_the_remedy() -> None:
    theta, phi, x = slider_crank().coordinates
    assert "leave 1 independent, but independent= has 2; state 1" in refusal(independent=(theta, x))
    assert "'a' is not in coordinates=" not in refusal(independent=(coordinate("a", "", "1"),))
    v = velocity("v", "")
    assert "leave out velocities= and kinematics=" in refusal(velocities=(v,))
    assert "leave out velocities= and kinematics=" in refusal(kinematics={phi: theta})
    twice = (*slider_crank().constraints, constraint("again", "", slider_crank().constraints[0].finite))
    for independent in ((), (theta,), (theta, x)):
        said = refusal(independent=independent, constraints=twice)
        assert "the constraints Fy, Fx, again are redundant; leave out what others imply (again)" in said
    rows = (constraint("F", "", theta - 1), constraint("N", "", phi - x))
    assert "the constraints F contain 0 of the dependent coordinates and must determine 1" in refusal(constraints=rows)


def test_changed_numbers_find_the_kinematics_anew() -> None:
    model = four_bar()
    l1 = model.parameters[0]
    (_, b, _), p = model.coordinates, model.velocities[0]
    longer = model.mapped(lambda expression: expression.xreplace({l1: 2 * l1}))
    assert sympy.simplify(longer.kinematics[b] - 2 * model.kinematics[b]) == 0
    assert replace(model).velocities == (p,)
    assert [each.requirement.name for each in longer.faults] == 2 * ["dead_point"]  # near one, or past one


def rolling_plate(*velocities: str) -> Model:
    """A plate with a knife edge behind its origin, its velocities the speed along the edge and the yaw rate."""
    x, y, psi = (coordinate(name, "place", "m") for name in ("x", "y", "psi"))
    V, Omega = velocity("V", "speed along the edge", "m/s"), velocity("Omega", "yaw rate", "rad/s")
    rates = {V: x.rate * cos(psi) + y.rate * sin(psi), Omega: psi.rate}
    d = parameter("d", "from the edge to the origin", "m", default=0.3)
    return Model(
        name="rolling_plate",
        description="a plate on a knife edge",
        kinetic=(x.rate**2 + y.rate**2 + psi.rate**2) / 2,
        parameters=(d,),
        coordinates=(x, y, psi),
        independent={v: rate for v, rate in rates.items() if v.name in (velocities or ("V", "Omega"))},
        constraints=(constraint("N", "sideways force", -x.rate * sin(psi) + y.rate * cos(psi) - d * psi.rate),),
    )


def test_independent_velocities_may_be_combinations_of_rates() -> None:
    model = rolling_plate()
    x, y, psi = model.coordinates
    V, Omega, d = model["V"], model["Omega"], model["d"]
    wanted = {x: V * cos(psi) - d * Omega * sin(psi), y: V * sin(psi) + d * Omega * cos(psi), psi: Omega}
    assert all(sympy.expand(model.kinematics[q] - rate) == 0 for q, rate in wanted.items())
    assert not model.faults  # the determinant is constant
    both = together("both", "two plates", left=model, right=model)
    assert [v.name for v in both.velocities] == ["left_V", "left_Omega", "right_V", "right_Omega"]
    with pytest.raises(ServonodeError, match="leave 2 independent, but independent= has 1; state 2"):
        rolling_plate("V")
    with pytest.raises(ServonodeError, match="in independent= was not made by velocity"):
        replace(model, independent={x: x.rate, Omega: psi.rate})


def test_a_row_that_follows_from_others_is_redundant_and_the_rest_is_chosen_by_small_groups() -> None:
    model, (a, b, c) = four_bar(), four_bar().coordinates
    doubled = (*model.constraints, constraint("twice", "force", L2 * cos(b) - L3 * cos(c) + model["l1"] * cos(a) - D))
    own = {q.own_velocity(): q.rate for q in model.coordinates}
    found = mobility("bars", model.parameters, model.coordinates, doubled, [own], model.place)
    assert found.redundant == ("twice",)
    assert [v.name for v in found.independent] == ["a_dot"]
    stuck = (*model.constraints, constraint("lock", "torque", a.rate, "N m"))
    with pytest.raises(ServonodeError, match="Fx, Fy, lock leave nothing that can move"):
        mobility("bars", model.parameters, model.coordinates, stuck, [own], model.place)
    far = (constraint("far", "force", cos(a) - 3),)
    with pytest.raises(ServonodeError, match=r"no pose near the start closes the loops \(far\)"):
        mobility("bars", model.parameters, model.coordinates, far, [own], model.place)
