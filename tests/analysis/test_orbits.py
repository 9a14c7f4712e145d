"""Periodic motions and their multipliers against closed forms, variational equations and saltation by hand."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad, solve_ivp
from sympy import Min, cos, sin

import servonode
from servonode.analysis.orbits import Flow, NoOrbit, PeriodicOrbit
from servonode.controllers import Program, residual
from servonode.errors import StatementError
from servonode.mechanics import Model, coordinate, input_, jump, parameter, time


def oscillator() -> Model:
    x, mu, F = (
        coordinate("x", "place", "m", start=0.5),
        parameter("mu", "pump", "N s/m", default=1.0),
        input_("F", "", "N"),
    )
    return Model("vdp", "van der Pol's oscillator", x.rate**2 / 2, coordinates=(x,), parameters=(mu,),
                 potential=x**2 / 2, inputs={F: x.rate})  # fmt: skip


def pump(machine: Model) -> Program:
    x = machine["x"]
    return Program("pump", "", (), inputs={machine["F"]: machine["mu"] * (1 - x**2) * x.rate})


@cache
def van_der_pol() -> PeriodicOrbit:
    launch = {"run": {"duration": 30.0}, "plant": {"machine": oscillator}, "controller": {"program": pump}}
    return servonode.load(launch).orbit()


def test_van_der_pols_orbit_has_the_multiplier_of_its_variational_equation() -> None:
    orbit = van_der_pol()
    assert orbit.period == pytest.approx(6.6632868, rel=1e-6)
    assert (orbit.forced, orbit.stable, orbit.multipliers.shape) == (False, True, (1,))

    def rates(_: float, y: Any) -> Any:
        x, v, _ = y
        return [v, (1 - x * x) * v - x, 1 - x * x]

    start = [orbit.state["x"], orbit.state["x_dot"], 0.0]
    last = solve_ivp(rates, (0, orbit.period), start, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    assert_allclose(last[:2], start[:2], atol=1e-6)
    assert orbit.multipliers[0].real == pytest.approx(np.exp(last[2]), rel=1e-3)  # Liouville: the other one is 1
    assert orbit.states.shape == (len(orbit.t), 2)


def test_its_picture_shows_the_orbit_and_the_unit_circle() -> None:
    assert len(van_der_pol().plot().axes) == 2
    with pytest.raises(StatementError, match="'y' is not a state; choose of x, x_dot"):
        van_der_pol().plot("y")
    assert "stable" in repr(van_der_pol())


def hopper() -> Model:
    """A ball that a plate hits: what an impact takes, v0 of the plate gives."""
    z, e = coordinate("z", "height", "m", start=0.5), parameter("e", "restitution", "1", default=0.7)
    v0, F = parameter("v0", "of the plate", "m/s", default=1.5), input_("F", "", "N")
    bounce = jump(z < 0, {z: -z, z.rate: -e * z.rate + v0}, "bounce")
    return Model("hopper", "ball on a plate", z.rate**2 / 2, coordinates=(z,), parameters=(e, v0),
                 potential=9.81 * z, inputs={F: z.rate}, jumps=(bounce,))  # fmt: skip


@pytest.mark.parametrize("restitution", [0.7, 0.4])
def test_a_bouncing_ball_returns_with_its_restitution_as_the_multiplier(restitution: float) -> None:
    plant = {"machine": hopper, "parameters": {"e": restitution}}
    orbit = servonode.load({"run": {"duration": 30.0}, "plant": plant}).orbit()
    assert orbit.period == pytest.approx(2 * 1.5 / (1 - restitution) / 9.81, rel=1e-7)
    assert_allclose(orbit.multipliers, [restitution], rtol=1e-5)
    assert len(orbit.jumps) == 1
    assert orbit.stable


def impacting(duration: float = 40.0) -> servonode.Loop:
    return servonode.load({"run": {"duration": duration}, "plant": {"machine": impact_oscillator}})


def impact_oscillator() -> Model:
    """A mass on a spring, pushed by cos(w t), with a wall at x = 0."""
    x, e = coordinate("x", "place", "m", start=0.3), parameter("e", "restitution", "1", default=0.8)
    w, F = parameter("w", "of the push", "rad/s", default=2.2), input_("F", "", "N")
    wall = jump(x < 0, {x: -x, x.rate: -e * x.rate}, "wall")
    return Model("impacts", "mass between spring and wall", x.rate**2 / 2, coordinates=(x,), parameters=(e, w),
                 potential=x**2 / 2 - x * cos(w * time), inputs={F: x.rate}, jumps=(wall,))  # fmt: skip


def turned(t: float) -> Any:
    """The motion of the spring alone over a time t, as a matrix."""
    return np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])


def test_an_impact_oscillator_has_the_multipliers_of_its_saltation_matrix() -> None:
    orbit = impacting().orbit()
    assert (orbit.forced, len(orbit.jumps)) == (True, 1)
    assert orbit.period == pytest.approx(2 * np.pi / 2.2, rel=1e-6)
    (when,) = orbit.jumps
    start = [orbit.state["x"], orbit.state["x_dot"]]
    pushed = solve_ivp(lambda t, y: [y[1], -y[0] + np.cos(2.2 * t)], (0, when), start, rtol=1e-11, atol=1e-12).y[:, -1]
    assert pushed[0] == pytest.approx(0.0, abs=1e-7)
    speed, pull, e = pushed[1], np.cos(2.2 * when), 0.8
    # R + (f_after - R f_before) n^T / (n f_before), R = diag(-1, -e), f_before = (speed, pull), n = (1, 0)
    saltation = np.array([[-e, 0.0], [(1 + e) * pull / speed, -e]])
    M = turned(orbit.period - when) @ saltation @ turned(when)
    assert_allclose(orbit.matrix, M, atol=1e-4)
    assert_allclose(np.prod(orbit.multipliers).real, e**2, rtol=1e-4)  # each impact takes e^2 of an area


def test_a_period_that_is_a_multiple_of_the_push_is_found_where_it_is_given() -> None:
    loop = servonode.load(
        {"run": {"duration": 60.0}, "plant": {"machine": impact_oscillator, "parameters": {"w": 4.0}}}
    )
    orbit = loop.orbit(period=4 * np.pi / 4.0)
    assert len(orbit.jumps) == 1
    assert np.prod(orbit.multipliers).real == pytest.approx(0.64, rel=1e-4)


GAIN, RATE, START = 1.5, 2.0, 0.6


def cart_pole() -> Model:
    """A pendulum of 1 m under a cart; theta = 0 hangs."""
    x, theta = coordinate("x", "place", "m"), coordinate("theta", "angle", "rad", start=START)
    F, g = input_("F", "force", "N"), parameter("g", "gravity", "m/s^2", default=9.81)
    kinetic = (2 * x.rate**2 + x.rate**2 + 2 * x.rate * theta.rate * cos(theta) + theta.rate**2) / 2
    return Model("cart_pole", "cart with a pendulum", kinetic, coordinates=(x, theta), parameters=(g,),
                 potential=-g * cos(theta), inputs={F: x.rate})  # fmt: skip


def virtual(machine: Model) -> Program:
    """The virtual constraint x = GAIN sin(theta)."""
    f = machine["x"] - GAIN * sin(machine["theta"])
    return Program("virtual", "", (residual("held", f, "virtual constraint", "m", rate=RATE),))


def test_a_virtual_constraint_leaves_a_family_of_orbits_across_which_the_residuals_decay() -> None:
    plant = {"machine": cart_pole, "initial": {"x": GAIN * np.sin(START)}}
    launch = {"run": {"duration": 12.0}, "plant": plant, "controller": {"program": virtual}}
    orbit = servonode.load(launch).orbit()
    decay = np.exp(-RATE * orbit.period)
    assert_allclose(np.sort(np.abs(orbit.multipliers)), [decay, decay, 1.0], rtol=2e-2, atol=1e-6)
    assert np.abs(orbit.multipliers).max() == pytest.approx(1.0, abs=1e-5)
    assert orbit.stable is None
    # theta'' (1 + k c^2) - k s c theta'^2 + g s = 0 on it, k = GAIN: an energy with an integrating factor
    top = np.abs(orbit.states[:, orbit.columns.index("theta")]).max()

    def slope_of(theta: float) -> float:
        """theta'^2 at an angle, of the motion that turns at `top`: d(w)/d(theta) = 2 (k s c w - g s) / (1 + k c^2)."""
        found = solve_ivp(
            lambda a, w: 2 * (GAIN * np.sin(a) * np.cos(a) * w - 9.81 * np.sin(a)) / (1 + GAIN * np.cos(a) ** 2),
            (top, theta), [0.0], rtol=1e-10, atol=1e-12,
        )  # fmt: skip
        return float(found.y[0, -1])

    quarter = quad(lambda p: top * np.cos(p) / np.sqrt(slope_of(top * np.sin(p))), 0, np.pi / 2 - 1e-6)[0]
    assert orbit.period == pytest.approx(4 * quarter, rel=1e-4)


def mathieu() -> Model:
    """A mass whose spring a motor changes in time; at rest in x = 0 nothing of it is seen."""
    x, t = coordinate("x", "place", "m"), time
    w, d = parameter("w", "of the motor", "rad/s", default=2.0), parameter("d", "damper", "N s/m", default=0.1)
    F = input_("F", "", "N")
    spring = 1.5 + 0.2 * cos(w * t)
    return Model("mathieu", "mass on a pumped spring", x.rate**2 / 2, coordinates=(x,), parameters=(w, d),
                 potential=spring * x**2 / 2, dissipation=d * x.rate**2 / 2, inputs={F: x.rate})  # fmt: skip


@pytest.mark.parametrize(("w", "duration"), [(2.0, 20.0), (20 * np.pi, 100.0)])
def test_a_forcing_that_vanishes_at_the_start_or_fits_a_share_of_the_run_is_one(w: float, duration: float) -> None:
    plant = {"machine": mathieu, "parameters": {"w": w}}
    assert Flow(servonode.load({"run": {"duration": duration}, "plant": plant}).closed_loop).forced
    plant["initial"] = {"x": 0.5}
    assert Flow(servonode.load({"run": {"duration": duration}, "plant": plant}).closed_loop).forced


@pytest.mark.parametrize("w", [2.0, 2.4])
def test_a_machine_at_rest_that_is_driven_in_time_has_the_multipliers_of_hills_equation(w: float) -> None:
    plant = {"machine": mathieu, "parameters": {"w": w, "d": 0.02}}
    loop = servonode.load({"run": {"duration": 20.0}, "plant": plant})
    orbit = loop.orbit({"x": 0.0})

    def rates(t: float, y: Any) -> Any:
        return [y[1], -(1.5 + 0.2 * np.cos(w * t)) * y[0] - 0.02 * y[1]]

    columns = [solve_ivp(rates, (0, 2 * np.pi / w), each, rtol=1e-11, atol=1e-12).y[:, -1] for each in np.eye(2)]
    assert_allclose(orbit.matrix, np.transpose(columns), atol=1e-7)
    assert (orbit.forced, orbit.stable) == (True, w == 2.0)
    assert orbit.period == pytest.approx(2 * np.pi / w, rel=1e-7)
    about = loop.linearize(0.0, {"x": 0.0})
    assert (about.about, about.stable) == ("motion", None)  # its poles are those of an instant


def shaken_table() -> Model:
    """A ball on a table that moves by A sin(w t): the time stands in the jump alone."""
    z, A, w = coordinate("z", "height", "m"), parameter("A", "", "m", default=0.0072), 40.0
    s, v, e = A * sin(w * time), A * w * cos(w * time), parameter("e", "restitution", default=0.5)
    hit = jump(Min(s - z, v - z.rate) > 0, {z.rate: (1 + e) * v - e * z.rate}, "the table hits the ball")
    return Model("table", "ball on a table", z.rate**2 / 2, coordinates=(z,), parameters=(A, e), potential=9.81 * z,
                 jumps=(hit,))  # fmt: skip


@pytest.mark.parametrize("side", [1, -1])
def test_time_that_stands_only_in_a_jump_forces_a_motion_whose_multipliers_are_those_of_the_bouncing_map(
    side: int,
) -> None:
    A, w, e, g = 0.0072, 40.0, 0.5, 9.81
    period = 2 * np.pi / w
    table = g * period / 2 * (1 - e) / (1 + e)  # its speed at an impact, from -g T/2 to g T/2
    phase = side * np.arccos(table / (A * w)) % (2 * np.pi)
    since = period - phase / w  # the last impact, at t = 0
    at = {
        "z": A * np.sin(phase) + g * period / 2 * since - g * since**2 / 2,
        "z_dot": g * period / 2 - g * since,
    }
    launch = {"run": {"duration": 1.0}, "plant": {"machine": shaken_table, "step": 0.0005, "initial": at}}
    for orbit in (servonode.load(launch).orbit(period=period), servonode.load(launch).orbit()):
        trace = 1 + e**2 - (1 + e) ** 2 * A * w**2 * np.sin(phase) / g  # of its map of time and speed; e^2 is its det
        assert orbit.period == pytest.approx(period, rel=1e-7)
        assert_allclose(np.sort_complex(orbit.multipliers), np.sort_complex(np.roots([1, -trace, e**2])), rtol=1e-4)
        assert (orbit.forced, orbit.stable, len(orbit.jumps)) == (True, side == 1, 1)


def test_what_has_no_orbit_says_why() -> None:
    rests = servonode.load({"run": {"duration": 5.0}, "plant": {"machine": cart_pole, "initial": {"theta": 0.0}}})
    with pytest.raises(NoOrbit, match=r"comes to rest, or never moves; linearize\(\) looks at an equilibrium"):
        rests.orbit()
    forced = servonode.load({"run": {"duration": 2.0}, "plant": {"machine": impact_oscillator}})
    with pytest.raises(NoOrbit, match="no period within 2 s; give one by period="):
        forced.orbit()
    with pytest.raises(StatementError, match="period = -1 is not a time"):
        forced.orbit(period=-1)


def findings(report: Any) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in report.findings if each.subject == "periodic motion"]


def test_check_names_the_limit_cycle_that_a_run_comes_to() -> None:
    launch = {"run": {"duration": 30.0}, "plant": {"machine": oscillator}, "controller": {"program": pump}}
    report = servonode.check(launch)
    ((level, text),) = findings(report)
    assert level == "good"
    assert text.startswith("of 6.663 s through x = ")
    assert "perturbations decay" in text
    assert report.numbers["periodic_motion"]["period"] == pytest.approx(6.66329, rel=1e-5)


def test_check_judges_a_machine_with_jumps_by_its_periodic_motion() -> None:
    controller = {"residuals": {"slide": "y"}, "period": 0.01}
    launch = {"run": {"duration": 20.0}, "plant": {"machine": sliding_hopper}, "controller": controller}
    report = servonode.check(launch)
    ((level, text),) = findings(report)
    assert (level, report.verdict) == ("good", "yes")
    assert "largest Floquet multiplier 0.7" in text
    grows = {"machine": sliding_hopper, "parameters": {"e": 1.02, "v0": -0.05}, "initial": {"z": 0.31856}}
    ((level, text),) = findings(servonode.check({**launch, "plant": grows}))
    assert level == "warn"
    assert "largest Floquet multiplier 1.02; unstable, 2.2-fold in this run of 20 s" in text


def sliding_hopper() -> Model:
    """The ball on a plate, which a force moves along it."""
    z, y = coordinate("z", "height", "m", start=0.5), coordinate("y", "place along the plate", "m")
    e, v0 = parameter("e", "restitution", "1", default=0.7), parameter("v0", "of the plate", "m/s", default=1.5)
    F = input_("F", "force along the plate", "N")
    bounce = jump(z < 0, {z: -z, z.rate: -e * z.rate + v0}, "bounce")
    return Model("hopper", "ball on a plate", (z.rate**2 + y.rate**2) / 2, coordinates=(z, y), parameters=(e, v0),
                 potential=9.81 * z, inputs={F: y.rate}, jumps=(bounce,))  # fmt: skip
