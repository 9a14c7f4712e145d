"""Machines of textbooks that are not packaged, stated in files of their own, against published closed forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import j1, jv, mathieu_a, y1, yv

import servonode
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, find_machine
from servonode.record.run import Run

Array = Any
Flow = Callable[..., Any]
Launch = Callable[..., Path]
FILES = Path(__file__).parent / "textbook"
NO_INPUT = np.zeros(0)


def machine_of(reference: str) -> Machine:
    """The machine of a file in textbook/, found as a launch file's "./file.py:function" is."""
    return MachineSource(find_machine(f"./{reference}", FILES)).load({})


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """Writes a launch file that names a file of textbook/ by its path."""

    def write(machine: str, plant: str, controller: str = "", duration: float = 2.0) -> Path:
        text = f'[run]\nduration = {duration}\n[plant]\nmachine = "{FILES}/{machine}"\n{plant}\n'
        file = tmp_path / "textbook.toml"
        file.write_text(text + (f"[controller]\n{controller}\n" if controller else ""))
        return file

    return write


def jacobian(machine: Machine, x: Array, entries: list[int], inputs: Array = NO_INPUT, h: float = 1e-5) -> Array:
    """d(x')/dx of some entries by central differences; error h^2 and rounding / h, 1e-10 each."""
    columns = []
    for j in entries:
        step = np.zeros(len(x))
        step[j] = h
        ahead, behind = (machine.derivatives(0.0, x + sign * step, inputs)[entries] for sign in (1, -1))
        columns.append((ahead - behind) / (2 * h))
    return np.array(columns).T


def ends(machine: Machine, x0: Array, duration: float, steps: list[int], inputs: Array = NO_INPUT) -> Array:
    """The states at the end with RK4 at different numbers of steps."""
    found = []
    for n in steps:
        x = x0.copy()
        assert machine.advancer("rk4")(0, n, round(duration * 1e9) // n, x, inputs, machine.c)
        found.append(x)
    return np.array(found)


def order(steps: list[int], errors: Array) -> float:
    return float(-np.polyfit(np.log(steps), np.log(errors), 1)[0])


# the double pendulum, holonomic


@pytest.fixture(scope="module")
def in_angles() -> Machine:
    return machine_of("double_pendulum.py:angles")


@pytest.fixture(scope="module")
def in_places() -> Machine:
    return machine_of("double_pendulum.py:places")


RODS = {"m1": 1.3, "m2": 0.7, "l1": 0.9, "l2": 0.6, "g": 9.81}


def places_of(angles: Array, l1: float, l2: float) -> Array:
    """The state in places from the state in angles (th1, th2, rates, work)."""
    th1, th2, *rest = angles
    x, y = l1 * np.sin(th1), -l1 * np.cos(th1)
    return np.array([x, y, x + l2 * np.sin(th2), y - l2 * np.cos(th2), *rest])


def accelerations_of_rods(th1: float, th2: float, w1: float, w2: float) -> Array:
    """th1'', th2'' as in C. Geuzaine, ONELAB wiki, "Double pendulum model in Python" (2021), and E. Neumann,
    myPhysicsLab, "Double Pendulum", solved for the accelerations."""
    m1, m2, l1, l2, g = RODS.values()
    c, s = np.cos(th1 - th2), np.sin(th1 - th2)
    inertia = m1 + m2 * s**2
    first = m2 * g * np.sin(th2) * c - m2 * s * (l1 * w1**2 * c + l2 * w2**2) - (m1 + m2) * g * np.sin(th1)
    second = (m1 + m2) * (l1 * w1**2 * s - g * np.sin(th2) + g * np.sin(th1) * c) + m2 * l2 * w2**2 * s * c
    return np.array([first / l1, second / l2]) / inertia


def test_the_double_pendulum_obeys_its_published_equations_in_both_coordinates(
    in_angles: Machine, in_places: Machine, rng: np.random.Generator
) -> None:
    angles, places = in_angles.with_parameters(RODS), in_places.with_parameters(RODS)
    for _ in range(20):
        x = np.append(rng.normal(size=4) * [2, 2, 3, 3], 0.0)
        expected = accelerations_of_rods(*x[:4])
        assert_allclose(angles.derivatives(0.0, x, NO_INPUT)[2:4], expected, rtol=0, atol=1e-12)
        there = places_of(x, RODS["l1"], RODS["l2"])
        assert_allclose(places.derivatives(0.0, there, NO_INPUT)[4:6], expected, rtol=0, atol=1e-12)
        assert_allclose(places.position_residual(0.0, there), 0.0, atol=1e-15)
        assert places.energy(0.0, there) == pytest.approx(angles.energy(0.0, x), abs=1e-13)


def test_the_rods_pull_as_newton_says(in_places: Machine, rng: np.random.Generator) -> None:
    """Newton's law of both masses along both rods: S1 - S2 c = m1 (g cos th1 + l1 w1^2), and with
    S2 (1/m1 + 1/m2) - S1 c/m1 = l2 w2^2 the tensions below."""
    m1, m2, l1, l2, g = RODS.values()
    places = in_places.with_parameters(RODS)
    for _ in range(20):
        th1, th2, w1, w2 = rng.normal(size=4) * [2, 2, 3, 3]
        c, pull = np.cos(th1 - th2), g * np.cos(th1) + l1 * w1**2
        second = m1 * m2 * (l2 * w2**2 + c * pull) / (m1 + m2 * (1 - c**2))
        first = m1 * pull + c * second
        _, forces = places.full(0.0, places_of(np.array([th1, th2, w1, w2, 0.0]), l1, l2), NO_INPUT)
        # the multiplier of x^2 + y^2 - l^2 pushes outwards with 2 l of it
        assert_allclose([-2 * l1 * forces[0], -2 * l2 * forces[1]], [first, second], rtol=0, atol=1e-11)


@pytest.mark.parametrize("rods", [{}, RODS, {"m1": 20.0, "l2": 0.4}, {"m2": 20.0, "l2": 3.0}])
def test_small_oscillations_have_the_published_frequencies(in_angles: Machine, rods: dict[str, float]) -> None:
    """T. W. B. Kibble, F. H. Berkshire, Classical Mechanics, 5th ed. (2004), eq. (11.21):
    w^4 - (M + m)/M (g/L + g/l) w^2 + (M + m)/M g^2/(L l) = 0."""
    machine = in_angles.with_parameters(rods)
    M, m, L, l, g = machine.parameters.values()  # noqa: E741
    share = (M + m) / M
    published = np.sort(np.roots([1.0, -share * (g / L + g / l), share * g**2 / (L * l)]))
    squares = -(np.linalg.eigvals(jacobian(machine, np.zeros(5), [0, 1, 2, 3])) ** 2)
    assert_allclose(np.sort(squares.real), np.repeat(published, 2), rtol=1e-8)
    if not rods:  # equal rods
        assert_allclose(published, g / L * np.array([2 - np.sqrt(2), 2 + np.sqrt(2)]), rtol=1e-14)


def test_the_double_pendulum_moves_the_same_in_angles_and_in_places(
    in_angles: Machine, in_places: Machine, flow: Flow
) -> None:
    x0 = np.array([1.2, -0.7, 0.5, 1.0, 0.0])
    times = [0.5, 1.0, 2.0]
    expected = flow(in_angles, x0, times, NO_INPUT)
    found = flow(in_places, places_of(x0, 1.0, 1.0), times, NO_INPUT)
    assert_allclose(found, places_of(expected, 1.0, 1.0), rtol=0, atol=1e-10)


def test_rk4_with_projection_keeps_its_order_in_states_and_energy(
    in_angles: Machine, in_places: Machine, flow: Flow
) -> None:
    x0, steps = np.array([1.2, -0.7, 0.5, 1.0, 0.0]), [500, 1000, 2000]
    expected = places_of(flow(in_angles, x0, 1.0, NO_INPUT)[:, 0], 1.0, 1.0)
    start = places_of(x0, 1.0, 1.0)
    found = ends(in_places, start, 1.0, steps)
    assert order(steps, np.abs(found - expected).max(axis=1)) == pytest.approx(4, abs=0.2)
    energies = [abs(in_places.energy(1.0, x) - in_places.energy(0.0, start)) for x in found]
    assert order(steps, energies) >= 3.8
    for x in found:
        assert_allclose(in_places.position_residual(1.0, x), 0.0, atol=1e-14)


def test_the_rods_keep_their_lengths_over_a_hundred_seconds(launch: Launch) -> None:
    th1, th2 = 1.2, -0.7
    x, y = np.sin(th1), -np.cos(th1)
    start = f"initial = {{x1 = {x}, y1 = {y}, x2 = {x + np.sin(th2)}, y2 = {y - np.cos(th2)}, w1 = 0.5, w2 = 1.0}}"
    run = servonode.simulate(launch("double_pendulum.py:places", start, duration=100.0), every=100)
    s = run.state
    assert run.t[-1] == 100.0
    assert_allclose(s["x1"] ** 2 + s["y1"] ** 2, 1.0, rtol=0, atol=2e-15)
    assert_allclose((s["x2"] - s["x1"]) ** 2 + (s["y2"] - s["y1"]) ** 2, 1.0, rtol=0, atol=2e-15)
    assert np.ptp(s["x2"]) > 2.0  # it swings
    assert run.energy_error < 1e-7  # J, of RK4 over 30 swings


# servo-constraints on the cart with a pole: partial feedback linearization

CART = "[plant.parameters]\nM = 1.3\nm = 0.4\nL = 0.6"
SERVO = "residuals = {{{}}}\nperiod = 0.01\ngains.lambda = 3.0"


def pushes(run: Run, x_acceleration: Array) -> Array:
    """The force that gives the cart an acceleration: (M + m sin^2) x'' - m sin (g cos + L theta'^2)."""
    theta, rate = run.state["theta"], run.state["theta_dot"]
    return (1.3 + 0.4 * np.sin(theta) ** 2) * x_acceleration - 0.4 * np.sin(theta) * (
        9.81 * np.cos(theta) + 0.6 * rate**2
    )


def test_a_servo_constraint_on_the_cart_is_collocated_linearization(launch: Launch) -> None:
    """M. W. Spong, "Underactuated mechanical systems" (1998), collocated partial feedback linearization; for the
    cart-pole R. Tedrake, Underactuated Robotics, ch. 3: f = (2 - c^2) x'' - s c - theta'^2 s with unit parameters."""
    servo = SERVO.format('place = "x - 0.3*sin(2*t)"')
    plant = f"initial = {{x = 0.2, theta = 1.0, theta_dot = -0.5}}\n{CART}"
    run = servonode.simulate(launch("cart_pole.py:model", plant, servo), control="continuous")
    f0, f0_dot = 0.2, -0.6
    expected = (f0 + (f0_dot + 3 * f0) * run.t) * np.exp(-3 * run.t)
    assert_allclose(run.residual["place"], expected, rtol=0, atol=1e-10)
    f, f_dot = run.residual["place"], run.state["x_dot"] - 0.6 * np.cos(2 * run.t)
    demand = -1.2 * np.sin(2 * run.t) - 6 * f_dot - 9 * f
    assert_allclose(run.input["F"], pushes(run, demand), rtol=0, atol=1e-11)
    assert run.energy_error < 1e-10


def test_a_servo_constraint_on_the_pole_is_noncollocated_linearization(launch: Launch) -> None:
    """The same sources: x'' = -(L theta'' + g s)/c; with unit parameters f = (c - 2/c) theta'' - 2 s/c - theta'^2 s."""
    servo = SERVO.format('angle = "theta - pi - 0.2*sin(2*t)"')
    plant = f"initial = {{theta = 3.4, theta_dot = 0.1}}\n{CART}"
    run = servonode.simulate(launch("cart_pole.py:model", plant, servo), control="continuous")
    f0, f0_dot = 3.4 - np.pi, 0.1 - 0.4
    expected = (f0 + (f0_dot + 3 * f0) * run.t) * np.exp(-3 * run.t)
    assert_allclose(run.residual["angle"], expected, rtol=0, atol=1e-10)
    theta, f_dot = run.state["theta"], run.state["theta_dot"] - 0.4 * np.cos(2 * run.t)
    demand = -0.8 * np.sin(2 * run.t) - 6 * f_dot - 9 * run.residual["angle"]
    cart = -(0.6 * demand + 9.81 * np.sin(theta)) / np.cos(theta)
    assert_allclose(run.input["F"], pushes(run, cart), rtol=0, atol=1e-10)


# the Chaplygin sleigh, nonholonomic

SLEIGH = {"m": 2.0, "I": 0.3, "a": 0.25}


@pytest.fixture(scope="module")
def sleigh() -> Machine:
    return machine_of("sleigh.py:model")


def sliding(t: Array, top: float, t0: float) -> tuple[Array, Array, Array]:
    """v, w, psi of the sleigh in closed form: v = top tanh, w = top/k sech of rate (t - t0), psi(t0) = 0.

    k^2 = (I + m a^2)/m, rate = a top/k^2; it solves v' = a w^2, w' = -a/k^2 v w by substitution.
    """
    m, I, a = SLEIGH.values()  # noqa: E741
    k = np.sqrt((I + m * a**2) / m)
    tau = a * top / k**2 * (t - t0)
    return top * np.tanh(tau), top / k / np.cosh(tau), k / a * 2 * np.arctan(np.tanh(tau / 2))


def test_the_sleigh_obeys_its_published_equations(sleigh: Machine, rng: np.random.Generator) -> None:
    """A. M. Bloch, Nonholonomic Mechanics and Control (2003), sec. 1.7: v' = a w^2, w' = -m a/(I + m a^2) v w."""
    m, I, a = SLEIGH.values()  # noqa: E741
    for _ in range(20):
        x, y, psi, v, w = rng.normal(size=5)
        state = np.array([x, y, psi, v, w, 0.0])
        expected = [v * np.cos(psi), v * np.sin(psi), w, a * w**2, -m * a / (I + m * a**2) * v * w, 0.0]
        assert_allclose(sleigh.derivatives(0.0, state, NO_INPUT), expected, rtol=0, atol=1e-14)
        _, (force,) = sleigh.full(0.0, state, NO_INPUT)
        assert force == pytest.approx(m * I / (I + m * a**2) * v * w, abs=1e-13)  # m (v w + a w')


def test_the_sleigh_follows_its_closed_form_and_turns_around(sleigh: Machine, flow: Flow) -> None:
    top, t0 = 1.4, 3.0
    v0, w0, psi0 = sliding(0.0, top, t0)
    assert v0 < -1.3  # it begins with the blade ahead of its centre of mass
    times = np.linspace(0.5, 12.0, 12)
    x = flow(sleigh, np.array([0.0, 0.0, psi0, v0, w0, 0.0]), times, NO_INPUT)
    v, w, psi = sliding(times, top, t0)
    assert_allclose(x[2:5], [psi, v, w], rtol=0, atol=1e-11)
    m, I, a = SLEIGH.values()  # noqa: E741
    ellipse = m * x[3] ** 2 + (I + m * a**2) * x[4] ** 2
    assert_allclose(ellipse, m * top**2, rtol=1e-12)
    assert [sleigh.energy(0.0, each) for each in x.T] == pytest.approx([m * top**2 / 2] * 12, rel=1e-12)


def test_the_sleigh_ends_on_a_straight_line_after_the_published_turn(sleigh: Machine) -> None:
    """Yu. I. Neimark, N. A. Fufaev, Dynamics of Nonholonomic Systems (1972): both asymptotes are straight lines; by
    the closed form the heading turns by pi sqrt(1 + I/(m a^2)) from one to the other."""
    m, I, a = SLEIGH.values()  # noqa: E741
    v0, w0, psi0 = sliding(0.0, 1.4, 18.0)
    (end,) = ends(sleigh, np.array([0.0, 0.0, psi0, v0, w0, 0.0]), 36.0, [36_000])
    assert end[2] - psi0 == pytest.approx(np.pi * np.sqrt(1 + I / (m * a**2)), abs=1e-9)
    assert end[3] == pytest.approx(1.4, abs=1e-12)
    assert abs(end[4]) < 1e-10


def test_the_sleigh_is_integrated_with_the_order_of_rk4(sleigh: Machine) -> None:
    steps, (v0, w0, psi0) = [100, 200, 400], sliding(0.0, 1.4, 1.0)
    found = ends(sleigh, np.array([0.0, 0.0, psi0, v0, w0, 0.0]), 2.0, steps)
    v, w, psi = sliding(2.0, 1.4, 1.0)
    assert order(steps, np.abs(found[:, 2:5] - [psi, v, w]).max(axis=1)) == pytest.approx(4, abs=0.2)


# the rolling disc, nonholonomic

THETA = 3  # the lean's entry of the state; rates follow at 5, 6, 7
DISCS = pytest.mark.parametrize(("k", "share"), [(0.25, 3), (0.5, 4)], ids=["disc", "hoop"])


@pytest.fixture(scope="module")
def disc() -> Machine:
    return machine_of("disc.py:model")


def steady_spin(lean: float, precession: float, k: float, r: float = 0.3, g: float = 9.81) -> float:
    """The spin about the axle in a steady circle, as A. J. McDonald, K. T. McDonald, "The rolling motion of a disk on
    a horizontal plane" (arXiv:physics/0008227), sec. 2.2, with the angle pi/2 + lean to the plane.

    Balance of angular momentum about the centre: k P^2 sin cos - (2k + 1) w P cos = (g/r) sin.
    """
    wanted = k * precession**2 * np.sin(lean) * np.cos(lean) - g / r * np.sin(lean)
    return float(wanted / ((2 * k + 1) * precession * np.cos(lean)))


@DISCS
@pytest.mark.parametrize(("lean", "precession"), [(0.4, -2.0), (-0.9, 3.0), (1.2, -9.0), (0.05, -0.3)])
def test_a_steady_circle_of_the_disc_is_an_equilibrium(
    disc: Machine, k: float, share: int, lean: float, precession: float
) -> None:
    rolling = disc.with_parameters({"k": k})
    spin = steady_spin(lean, precession, k)
    x = np.array([0.3, -1.0, 0.7, lean, 2.0, precession, 0.0, spin - precession * np.sin(lean), 0.0])
    accelerations = rolling.derivatives(0.0, x, NO_INPUT)[5:8]
    assert_allclose(accelerations, 0.0, atol=1e-12 * spin**2)
    left = np.array([-np.sin(0.7), np.cos(0.7)])
    _, force = rolling.full(0.0, x, NO_INPUT)
    assert_allclose(force, 0.5 * 0.3 * spin * precession * left, rtol=0, atol=1e-11 * spin**2)  # m v P to the centre
    x[6] = 0.1  # falling is not steady
    assert np.abs(rolling.derivatives(0.0, x, NO_INPUT)[5:8]).max() > 0.05


def test_a_steady_disc_comes_back_after_one_circle(disc: Machine, flow: Flow) -> None:
    lean, precession = 0.4, -2.0
    rolled = steady_spin(lean, precession, 0.25) - precession * np.sin(lean)
    x0 = np.array([0.0, 0.0, 0.0, lean, 0.0, precession, 0.0, rolled, 0.0])
    period = 2 * np.pi / abs(precession)
    half, full = flow(disc, x0, [period / 2, period], NO_INPUT).T
    assert half[1] == pytest.approx(2 * 0.3 * rolled / precession, abs=1e-10)  # the circle's diameter
    assert_allclose(full[[0, 1, 3, 5, 6, 7]], x0[[0, 1, 3, 5, 6, 7]], rtol=0, atol=1e-10)


@DISCS
@pytest.mark.parametrize("spin", [1.0, 3.0, 9.0])
def test_straight_rolling_wobbles_with_the_published_frequency(
    disc: Machine, k: float, share: int, spin: float
) -> None:
    """(k + 1) theta'' + [2 (2k + 1) s^2 - g/r] theta = const, of k psi'' + 2 k s theta' = 0; McDonald, sec. 2.5."""
    x = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, spin, 0.0])
    squares = np.linalg.eigvals(jacobian(disc.with_parameters({"k": k}), x, [THETA, 5, 6, 7])) ** 2
    expected = (9.81 / 0.3 - 2 * (2 * k + 1) * spin**2) / (k + 1)
    far = np.argsort(np.abs(squares))
    assert_allclose(squares[far[2:]], expected, rtol=1e-7)
    assert_allclose(squares[far[:2]], 0.0, atol=1e-5)  # a turn and another speed are steady too: a double zero


@DISCS
def test_straight_rolling_is_stable_above_the_published_speed(disc: Machine, k: float, share: int) -> None:
    """Spin^2 > g/(3 r) for a disc, g/(4 r) for a hoop: Neimark and Fufaev (1972); E. J. Routh, art. 244."""
    rolling = disc.with_parameters({"k": k})

    def growth(spin: float) -> float:
        """The square of the exponent of the lean; the other exponents are zero."""
        x = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, spin, 0.0])
        square = jacobian(rolling, x, [THETA, 5, 6, 7])
        return float(np.trace(square @ square) / 2)

    critical = np.sqrt(9.81 / (share * 0.3))
    assert brentq(growth, 1.0, 9.0, xtol=1e-12) == pytest.approx(critical, rel=1e-8)
    for spin, stays in ((1.05 * critical, True), (0.95 * critical, False)):
        x = np.array([0.0, 0.0, 0.0, 1e-3, 0.0, 0.0, 0.0, spin, 0.0])
        rolling.advancer("rk4")(0, 5_000, 1_000_000, x, NO_INPUT, rolling.c)
        assert bool(abs(x[THETA]) < 0.02) is stays


def test_a_wobbling_disc_keeps_its_energy(disc: Machine, flow: Flow) -> None:
    x0 = np.array([0.0, 0.0, 0.3, 0.5, 0.0, 1.0, -0.8, 6.0, 0.0])
    x = flow(disc, x0, [0.5, 1.0, 2.0], NO_INPUT)
    energies = [disc.energy(0.0, each) for each in (x0, *x.T)]
    assert np.ptp(x[THETA]) > 0.1
    assert_allclose(energies, energies[0], rtol=0, atol=1e-11)
    steps = [250, 500, 1000]
    errors = np.abs(ends(disc, x0, 2.0, steps) - x[:, -1]).max(axis=1)
    assert order(steps, errors) == pytest.approx(4, abs=0.2)


# moving constraints


@pytest.mark.slow
def test_a_bead_on_a_turning_wire_follows_its_closed_form(launch: Launch) -> None:
    """r'' = w^2 r: r = r0 cosh(w t) + (r0'/w) sinh(w t), force 2 m w r' (H. Goldstein, Classical Mechanics, ch. 1)."""
    m, w, r0, u0 = 0.4, 1.5, 0.3, -0.2
    run = servonode.simulate(launch("moving.py:wire", f"initial = {{x = {r0}, u = {u0}}}"))
    r = r0 * np.cosh(w * run.t) + u0 / w * np.sinh(w * run.t)
    u = r0 * w * np.sinh(w * run.t) + u0 * np.cosh(w * run.t)
    places = [run.state["x"], run.state["y"], run.state["u"]]
    assert_allclose(places, [r * np.cos(w * run.t), r * np.sin(w * run.t), u], rtol=0, atol=1e-11)
    off = run.state["y"] * np.cos(w * run.t) - run.state["x"] * np.sin(w * run.t)
    assert_allclose(off, 0.0, atol=1e-15)  # the wire, at the end of each step
    states, wire = np.array(list(run.state.values())).T, run.closed_loop.machine
    forces = [wire.outputs(t, np.append(x, 0.0), NO_INPUT)["N"] for t, x in zip(run.t, states, strict=True)]
    assert_allclose(forces, 2 * m * w * u, rtol=0, atol=1e-11)
    # the wire's work, of the closed form: the integral of 2 m w r' w r
    assert_allclose(run.work, m * w**2 * (r**2 - r0**2), rtol=0, atol=1e-11)
    assert_allclose(run.energy - run.energy[0], run.work, rtol=0, atol=1e-11)
    assert run.work[-1] > 1.0


def test_a_run_of_a_machine_without_inputs_has_outputs_too(launch: Launch) -> None:
    run = servonode.simulate(launch("moving.py:wire", "initial = {x = 0.3, u = 0.2}"))
    assert_allclose(run.outputs["N"], 2 * 0.4 * 1.5 * run.state["u"], rtol=0, atol=1e-11)


def test_a_machine_without_inputs_can_be_checked(launch: Launch) -> None:
    assert servonode.check(launch("moving.py:wire", "initial = {x = 0.3, u = 0.2}")).verdict == "yes"


def test_a_bead_on_a_turning_wire_is_integrated_with_the_order_of_rk4() -> None:
    wire, w, steps = machine_of("moving.py:wire"), 1.5, [20, 40, 80]
    found = ends(wire, np.array([0.3, 0.0, 0.0, 0.0]), 2.0, steps)
    r, u = 0.3 * np.cosh(2 * w), 0.3 * w * np.sinh(2 * w)
    expected = np.array([r * np.cos(2 * w), r * np.sin(2 * w), u])
    assert order(steps, np.abs(found[:, :3] - expected).max(axis=1)) == pytest.approx(4, abs=0.25)


@pytest.fixture(scope="module")
def shaken() -> Machine:
    return machine_of("moving.py:shaken")


@pytest.mark.slow
def test_a_shaken_pendulum_feels_its_pivot_as_gravity(shaken: Machine, rng: np.random.Generator) -> None:
    m, L, g, A, W = shaken.parameters.values()
    for _ in range(20):
        t, (theta, rate) = rng.uniform(0, 1), rng.normal(size=2)
        y, lift = A * np.cos(W * t), -A * W**2 * np.cos(W * t)
        x = np.array([y, theta, rate, 0.0])
        expected = -(g + lift) / L * np.sin(theta)
        found = shaken.derivatives(t, x, NO_INPUT)
        assert found[2] == pytest.approx(expected, abs=1e-11)  # of numbers of size 1e3
        force = m * (g + lift + L * (expected * np.sin(theta) + rate**2 * np.cos(theta)))
        assert shaken.full(t, x, NO_INPUT)[1][0] == pytest.approx(force, abs=1e-11)
        assert found[3] == pytest.approx(-force * A * W * np.sin(W * t), abs=1e-9)  # the pivot's power


def floquet(machine: Machine, flow: Flow) -> Array:
    """The monodromy matrix (2, 2) of the standing pendulum over one period of the pivot, by central differences."""
    A, W = machine.parameters["A"], machine.parameters["W"]
    h, columns = 1e-4, []
    for j in (1, 2):
        sides = []
        for sign in (1, -1):
            x = np.array([A, np.pi, 0.0, 0.0])
            x[j] += sign * h
            sides.append(flow(machine, x, 2 * np.pi / W, NO_INPUT)[1:3, 0])
        columns.append((sides[0] - sides[1]) / (2 * h))
    return np.array(columns).T


@pytest.mark.parametrize("A", [0.05, 0.2])
def test_the_standing_pendulum_is_stable_where_mathieus_equation_is(shaken: Machine, flow: Flow, A: float) -> None:
    """Linearised: eta'' + (a - 2 q cos 2 tau) eta = 0 with a = -4 g/(L W^2), q = 2 A/L, stable above a = a0(q):
    M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions (1964), ch. 20."""
    L, W = 0.5, 80.0
    g = -float(mathieu_a(0, 2 * A / L)) * L * W**2 / 4
    for share, expected in ((1.0, None), (0.98, True), (1.02, False)):
        matrix = floquet(shaken.with_parameters({"A": A, "W": W, "g": share * g}), flow)
        assert np.linalg.det(matrix) == pytest.approx(1.0, abs=1e-7)  # h^2, and the solver's error / h
        if expected is None:
            assert np.trace(matrix) == pytest.approx(2.0, abs=1e-6)
        else:
            assert bool(abs(np.trace(matrix)) < 2) is expected


@pytest.mark.parametrize("A", [0.01, 0.04])
def test_a_fast_pivot_holds_the_pendulum_up_from_kapitzas_threshold(shaken: Machine, flow: Flow, A: float) -> None:
    """A^2 W^2 > 2 g L: L. D. Landau, E. M. Lifshitz, Mechanics, 3rd ed. (1976), par. 30, problem 1; the next term is
    of the series a0 = -q^2/2 + 7 q^4/128 (Abramowitz and Stegun 20.2.25)."""
    L, g, q = 0.5, 9.81, 2 * A / 0.5
    kapitza = np.sqrt(2 * g * L) / A

    def beyond(W: float) -> float:
        return float(np.trace(floquet(shaken.with_parameters({"A": A, "W": W}), flow)) - 2)

    critical = brentq(beyond, 0.98 * kapitza, 1.02 * kapitza, xtol=1e-6 * kapitza)
    assert (critical / kapitza) ** 2 - 1 == pytest.approx(7 * q**2 / 64, abs=q**4 + 1e-4)


def test_the_power_of_a_shaken_pivot_closes_the_energy_balance(launch: Launch) -> None:
    plant = "step = 0.0001\ninitial = {y = 0.05, theta = 3.0}"
    run = servonode.simulate(launch("moving.py:shaken", plant, duration=1.0), every=10)
    assert_allclose(run.state["y"], 0.05 * np.cos(80 * run.t), rtol=0, atol=1e-15)
    assert np.abs(run.state["theta"] - np.pi).max() < 0.35  # it stands
    assert np.ptp(run.work) > 1.0
    assert run.energy_error < 1e-7


# dissipation, functions of time, disturbances


@pytest.mark.slow
def test_friction_takes_the_energy_that_its_closed_form_says(launch: Launch) -> None:
    m, k, c, x0 = 0.8, 5.0, 0.6, 0.4
    run = servonode.simulate(launch("oscillators.py:spring", f"initial.x = {x0}", duration=5.0))
    decay = c / (2 * m)
    rate = np.sqrt(k / m - decay**2)
    x = x0 * np.exp(-decay * run.t) * (np.cos(rate * run.t) + decay / rate * np.sin(rate * run.t))
    v = -x0 * np.exp(-decay * run.t) * (k / m) / rate * np.sin(rate * run.t)
    assert_allclose([run.state["x"], run.state["x_dot"]], [x, v], rtol=0, atol=1e-12)
    assert_allclose(run.energy, (m * v**2 + k * x**2) / 2, rtol=0, atol=1e-12)
    assert_allclose(run.work, run.energy - run.energy[0], rtol=0, atol=1e-12)
    assert (np.diff(run.energy) <= 0).all()
    assert run.energy[-1] < 0.03 * run.energy[0]


@pytest.mark.slow
def test_a_pendulum_that_lengthens_evenly_follows_bessel_functions(launch: Launch) -> None:
    """l theta'' + 2 l' theta' + g theta = 0 with l = l0 + v t has theta = [a J1(z) + b Y1(z)]/z, z = 2 sqrt(g l)/v:
    M. L. Boas, Mathematical Methods in the Physical Sciences, ch. 12, "The lengthening pendulum"."""
    l0, v, g, a, b = 1.2, 0.25, 9.81, 3e-5, 2e-5

    def closed_form(t: Array) -> tuple[Array, Array]:
        length = l0 + v * t
        z = 2 * np.sqrt(g * length) / v
        return (a * j1(z) + b * y1(z)) / z, -np.sqrt(g / length) * (a * jv(2, z) + b * yv(2, z)) / z

    theta0, rate0 = map(float, closed_form(0.0))
    plant = f'parameters.l = "{l0} + {v}*t"\ninitial = {{theta = {theta0!r}, theta_dot = {rate0!r}}}'
    run = servonode.simulate(launch("oscillators.py:pendulum", plant, duration=10.0))
    theta, rate = closed_form(run.t)
    assert 1e-7 < np.abs(theta).max() < 1e-6  # so small that its sine is the angle to 1e-13
    assert_allclose(run.state["theta"], theta, rtol=0, atol=1e-11 * np.abs(theta).max())
    assert_allclose(run.state["theta_dot"], rate, rtol=0, atol=1e-11 * np.abs(rate).max())


@pytest.mark.slow
def test_a_length_that_changes_acts_in_motion_energy_and_law(launch: Launch) -> None:
    """theta'' + 2 l'/l theta' + g/l sin(theta) = N/(m l^2), with a law that knows of l(t)."""
    plant = '[plant.parameters]\nl = "1 + 0.2*sin(3*t)"\n[plant.initial]\ntheta = 0.9\ntheta_dot = 1.5'
    file = launch("oscillators.py:pendulum", plant, SERVO.format('angle = "theta - 0.5*sin(t)"'))
    loop = servonode.load(file)
    for t, theta, rate, N in ((0.0, 0.9, 1.5, 0.0), (1.3, -2.0, 0.7, 1.1), (4.0, 0.4, -3.0, -2.0)):
        length, change = 1 + 0.2 * np.sin(3 * t), 0.6 * np.cos(3 * t)
        expected = -2 * change / length * rate - 9.81 / length * np.sin(theta) + N / (0.7 * length**2)
        found = loop.derivatives(t, {"theta": theta, "theta_dot": rate}, {"N": N})
        assert found["theta_dot"] == pytest.approx(expected, abs=1e-12)
    run = loop.simulate(control="continuous")
    f0, f0_dot = 0.9, 1.0
    assert_allclose(
        run.residual["angle"], (f0 + (f0_dot + 3 * f0) * run.t) * np.exp(-3 * run.t), rtol=0, atol=1e-10
    )  # fmt: skip
    assert run.energy_error < 1e-10
    assert np.ptp(run.work) > 1.0


def test_a_disturbed_oscillator_answers_with_its_closed_form_amplitude_and_phase(launch: Launch) -> None:
    """m x'' + c x' + k x = P sin(W t): x = a sin(W t - d), a = P/sqrt((k - m W^2)^2 + (c W)^2), tan d = c W/(k - m W^2)
    (Landau and Lifshitz, Mechanics, par. 26). A disturbance of the input by -0.2 x' is friction of 0.2 more."""
    m, k, c, P, W = 0.8, 5.0, 0.6 + 0.2, 0.9, 3.0
    a, d = P / np.hypot(k - m * W**2, c * W), np.arctan2(c * W, k - m * W**2)
    plant = f"initial = {{x = {-a * np.sin(d)}, x_dot = {a * W * np.cos(d)}}}\n"
    plant += '[plant.disturbance]\nx = "0.9*sin(3*t)"\nF = "-0.2*x_dot"'
    run = servonode.simulate(launch("oscillators.py:spring", plant, duration=10.0))
    assert_allclose(run.state["x"], a * np.sin(W * run.t - d), rtol=0, atol=1e-12)
    assert run.energy_error < 1e-11  # the work is summed over 30 periods of its power
    # force and friction both work: in a steady oscillation the energy goes up and down twice a period
    x, v = a * np.sin(W * run.t - d), a * W * np.cos(W * run.t - d)
    assert_allclose(run.energy, (m * v**2 + k * x**2) / 2, rtol=0, atol=1e-12)
    assert np.ptp(run.work) > 0.08


@pytest.mark.slow
def test_a_law_that_does_not_know_a_steady_disturbance_leaves_its_offset(launch: Launch) -> None:
    """docs/explanation/mathematics.md, eq. (7): a disturbance d of f'' leaves d/lambda^2; d = 0.8 N/0.8 kg."""
    servo = SERVO.format('place = "x - 0.1"')
    run = servonode.simulate(launch("oscillators.py:spring", "disturbance.x = 0.8", servo, 8.0), control="continuous")
    assert run.residual["place"][-1] == pytest.approx(1.0 / 9.0, abs=1e-8)
    assert run.energy_error < 1e-10
