"""Pendulum sphero: against three derivations by hand, printed states and runs, integrals, closed forms, the brake."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.mechanics.machine import Machine
from tests.helpers.machines import close, fault_text, warns
from tests.helpers.outlines import outline
from tests.helpers.packaged import load_machine

Flow = Callable[..., Any]
Print = Callable[[Any, str], None]
STATE = 15
PLACE, N, OMEGA, PENDULUM, ATTITUDE = slice(0, 2), slice(2, 5), slice(5, 8), slice(8, 11), slice(11, 15)
OMEGA_Y, OMEGA_Z, PENDULUM_Y, PENDULUM_Z, WORK = 6, 7, 9, 10, 15
E_Z = np.array([0.0, 0.0, 1.0])
REST = np.zeros(3)
TORQUE = np.array([0.1, -0.2, 0.05])
TIMES = np.linspace(0.5, 4.0, 8)


def at(machine: Machine, n: Any = (0, 0, -1), omega: Any = REST, pendulum: Any = REST, q: Any = (1, 0, 0, 0)) -> Any:
    """A state at the origin from its vectors."""
    values: dict[str, float] = {}
    for name, vector in {"n": n, "omega": omega, "Omega": pendulum, "q": q}.items():
        values |= {f"{name}_{k}": float(entry) for k, entry in enumerate(vector)}
    return machine.state(values)


def in_line(machine: Machine, theta: float, theta_dot: float = 0.0, v: float = 0.0) -> Any:
    """A state of straight rolling along x: forward tilt, its rate, speed."""
    n = (np.sin(theta), 0, -np.cos(theta))
    return at(machine, n, (0, v / machine.parameters["R"], 0), (0, -theta_dot, 0))


def printed_start(machine: Machine) -> Any:
    return at(machine, (0.36, -0.48, -0.8), (1, 2, 3), (-0.5, 0.7, 1.1))


class ByHand:
    """The sphero from pencil and paper: explicit, as mass matrix, and as two bodies with the forces between them."""

    def __init__(self, machine: Machine) -> None:
        self.p = p = machine.parameters
        self.ml = p["m"] * p["l"]
        self.A = p["i"] + self.ml * p["l"]
        self.mu = p["M"] + p["m"] + p["I"] / p["R"] ** 2
        self.k = self.ml**2 / self.A

    def joint(self, x: Any, Q: Any) -> Any:
        return Q - self.p["c_j"] * (x[PENDULUM] - x[OMEGA])

    def v(self, x: Any) -> Any:
        return self.p["R"] * np.array([x[OMEGA_Y], -x[OMEGA][0]])

    def n_dot(self, x: Any) -> Any:
        return np.cross(x[PENDULUM], x[N])

    def w(self, x: Any) -> Any:
        return E_Z / self.p["R"] + self.ml / self.A * x[N]

    def r0(self, x: Any) -> Any:
        n, Omega, p = x[N], x[PENDULUM], self.p
        s = Omega @ n
        across = Omega - s * n
        pull = p["C3"] * s / self.A * across - (across @ across) * n + self.ml * p["g"] / self.A * n[2] * n
        return -self.ml * pull[:2] - p["c_r"] / p["R"] ** 2 * self.v(x)

    def explicit(self, x: Any, Q: Any) -> Any:
        """All fifteen rates without solving a system."""
        p, n, omega, Omega, joint = self.p, x[N], x[OMEGA], x[PENDULUM], self.joint(x, Q)
        free, C3, s = self.mu - self.k, p["C3"], Omega @ n
        force = np.cross(self.w(x), joint)[:2] + self.r0(x)
        v_dot = (force - self.k * n[:2] * (n[:2] @ force) / (free + self.k * n[:2] @ n[:2])) / free
        omega_dot = [-v_dot[1] / p["R"], v_dot[0] / p["R"], (-joint[2] - p["c_r"] * omega[2]) / p["I"]]
        turn = joint - (joint @ n) * n - (C3 - self.A) * s * self.n_dot(x) - self.ml * np.cross(n, [*v_dot, p["g"]])
        Omega_dot = turn / self.A + (joint @ n) / C3 * n
        q0, q = x[ATTITUDE][0], x[ATTITUDE][1:]
        q_dot = np.array([-omega @ q, *(q0 * omega + np.cross(omega, q))]) / 2
        return np.concatenate([self.v(x), self.n_dot(x), omega_dot, Omega_dot, q_dot])

    def mass(self, x: Any) -> Any:
        """The matrix (5, 5) of v', Omega'."""
        n, matrix = x[N], np.zeros((5, 5))
        matrix[:2, :2] = self.mu * np.eye(2)
        matrix[:2, 2:] = -self.ml * cross(n)[:2]  # Omega' x n
        matrix[2:, :2] = self.ml * cross(n)[:, :2]
        matrix[2:, 2:] = self.A * np.eye(3) + (self.p["C3"] - self.A) * np.outer(n, n)
        return matrix

    def force(self, x: Any, Q: Any) -> Any:
        """What the mass matrix times v', Omega' equals."""
        p, n, Omega, joint = self.p, x[N], x[PENDULUM], self.joint(x, Q)
        turned = np.cross(Omega, self.n_dot(x))
        moved = np.cross(E_Z, joint)[:2] / p["R"] - p["c_r"] / p["R"] ** 2 * self.v(x) - self.ml * turned[:2]
        spun = (p["C3"] - self.A) * (Omega @ n) * self.n_dot(x) + self.ml * p["g"] * np.cross(n, E_Z)
        return np.concatenate([moved, joint - spun])

    def two_bodies(self, x: Any, Q: Any) -> tuple[Any, Any]:
        """Newton and Euler for each body: (omega', Omega') (6,), and the floor's force on the shell (3,)."""
        p, n, Omega, joint = self.p, x[N], x[PENDULUM], self.joint(x, Q)
        inertia = p["i"] * np.eye(3) + (p["C3"] - p["i"]) * np.outer(n, n)
        v, omega, turn, F, floor = slice(0, 2), slice(2, 5), slice(5, 8), slice(8, 11), slice(11, 14)
        S, y = np.zeros((14, 14)), np.zeros(14)
        horizontal = np.eye(3)[:, :2]
        S[0:3, v], S[0:3, F], S[0:3, floor] = p["M"] * horizontal, np.eye(3), -np.eye(3)  # shell, its centre
        y[0:3] = -p["M"] * p["g"] * E_Z
        S[3:6, omega], S[3:6, floor] = p["I"] * np.eye(3), p["R"] * cross(E_Z)  # shell, about its centre
        y[3:6] = -joint - p["c_r"] * x[OMEGA]
        S[6:9, v], S[6:9, turn], S[6:9, F] = p["m"] * horizontal, -self.ml * cross(n), -np.eye(3)  # pendulum
        y[6:9] = -p["m"] * p["g"] * E_Z - self.ml * np.cross(Omega, self.n_dot(x))
        S[9:12, turn], S[9:12, F] = inertia, p["l"] * cross(n)  # pendulum, about its centre of mass
        y[9:12] = joint - np.cross(Omega, inertia @ Omega)
        S[12:14, v], S[12, 3], S[13, 2] = np.eye(2), -p["R"], p["R"]  # no slip
        solved = np.linalg.solve(S, y)
        return solved[2:8], solved[floor]

    def energy(self, x: Any) -> float:
        p, v, omega, Omega = self.p, np.array([*self.v(x), 0]), x[OMEGA], x[PENDULUM]
        swing = v + p["l"] * self.n_dot(x)
        kinetic = p["M"] * v @ v + p["I"] * omega @ omega + p["m"] * swing @ swing
        kinetic += p["i"] * Omega @ Omega + (p["C3"] - p["i"]) * (Omega @ x[N]) ** 2
        return float(kinetic / 2 + self.ml * p["g"] * x[N][2])

    def integrals(self, x: Any) -> Any:
        """p_x, p_y, omega_z, s, K_z: constant without torques and friction."""
        p = self.mu * self.v(x) + self.ml * self.n_dot(x)[:2]
        s = x[PENDULUM] @ x[N]
        K = (self.A - self.ml**2 / self.mu) * np.cross(x[N], self.n_dot(x))[2] + self.p["C3"] * s * x[N][2]
        return np.array([*p, x[OMEGA_Z], s, K])

    def steady_tilt(self, a: Any) -> Any:
        """The tilt that a steady acceleration has."""
        g = self.p["g"]
        return np.arcsin(self.mu * self.p["R"] * a / (self.ml * np.hypot(g, a))) - np.arctan(a / g)

    @property
    def largest_acceleration(self) -> Any:
        return self.p["g"] * self.ml / np.sqrt((self.mu * self.p["R"]) ** 2 - self.ml**2)


def cross(a: Any) -> Any:
    """The matrix of b -> a x b."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def random_state(rng: np.random.Generator) -> Any:
    """Any direction of the pendulum, any attitude."""
    n, q = rng.normal(size=3), rng.normal(size=4)
    turns = 3 * rng.normal(size=6)
    return np.array([*rng.normal(size=2), *n / np.linalg.norm(n), *turns, *q / np.linalg.norm(q), 0.0])


def random_parameters(rng: np.random.Generator) -> dict[str, float]:
    ends = {"R": (0.1, 0.3), "M": (0.5, 2), "m": (0.5, 3), "i": (0.002, 0.02), "g": (1, 12), "I": (0.005, 0.05)}
    p = {name: rng.uniform(*each) for name, each in ends.items()}
    p |= {"l": rng.uniform(0.1, 0.9) * p["R"], "C3": rng.uniform(0.1, 2) * p["i"]}
    return p | {"c_j": rng.uniform(0, 0.05), "c_r": rng.uniform(0, 0.05)}


@pytest.fixture(scope="module")
def sphero() -> Machine:
    return load_machine("pendulum_sphero", {}, {})


Samples = list[tuple[Machine, ByHand, Any, Any]]


@pytest.fixture
def samples(sphero: Machine, rng: np.random.Generator) -> Samples:
    """Machine, the same by hand, state and torques: every fourth machine is the default one."""
    machines = [sphero if i % 4 == 0 else sphero.with_parameters(random_parameters(rng)) for i in range(60)]
    return [(each, ByHand(each), random_state(rng), rng.normal(size=3)) for each in machines]


@pytest.fixture
def frictionless(samples: Samples) -> Samples:
    machines = [machine.with_parameters({"c_j": 0.0, "c_r": 0.0}) for machine, _, _, _ in samples]
    return [(each, ByHand(each), x, Q) for each, (_, _, x, Q) in zip(machines, samples, strict=True)]


# the equations


def test_the_samples_have_long_and_short_pendulums(samples: Samples) -> None:
    ratios = [by_hand.A / (by_hand.ml * by_hand.p["R"]) for _, by_hand, _, _ in samples]
    assert min(ratios) < 0.8
    assert max(ratios) > 1.2


def test_derived_rates_are_the_explicit_ones_those_of_the_mass_matrix_and_of_two_bodies(samples: Samples) -> None:
    for machine, by_hand, x, Q in samples:
        rates, outputs, mass = machine.derivatives(0.0, x, Q), machine.outputs(0.0, x, Q), by_hand.mass(x)
        close(rates[:STATE], by_hand.explicit(x, Q), 1e-11)
        assert_allclose(mass, mass.T, rtol=0, atol=1e-16)
        assert np.linalg.eigvalsh(mass).min() > 0
        v_dot = by_hand.p["R"] * np.array([rates[OMEGA_Y], -rates[OMEGA][0]])
        close([*v_dot, *rates[PENDULUM]], np.linalg.solve(mass, by_hand.force(x, Q)), 1e-11)
        turns, floor = by_hand.two_bodies(x, Q)
        close(rates[5:11], turns, 1e-11)
        close([outputs[f"N_{axis}"] for axis in "xyz"], floor, 1e-11)


def test_energy_power_and_outputs_are_those_written_by_hand(samples: Samples) -> None:
    for machine, by_hand, x, Q in samples:
        assert machine.energy(0.0, x) == pytest.approx(by_hand.energy(x), rel=1e-12, abs=1e-13)
        joint = x[PENDULUM] - x[OMEGA]
        terms = [*Q * joint, *-by_hand.p["c_j"] * joint**2, *-by_hand.p["c_r"] * x[OMEGA] ** 2]
        power = machine.derivatives(0.0, x, Q)[WORK]
        assert_allclose(power, sum(terms), rtol=0, atol=1e-14 * np.abs(terms).max())
        outputs = machine.outputs(0.0, x, Q)
        close([outputs["v_x"], outputs["v_y"]], by_hand.v(x), 1e-15)
        assert np.cos(outputs["theta"]) == pytest.approx(-x[N][2], abs=1e-15)
        assert outputs["s"] == pytest.approx(x[PENDULUM] @ x[N], abs=1e-14)


def test_the_tilt_is_exact_near_the_bottom(sphero: Machine) -> None:
    assert sphero.outputs(0.0, at(sphero), REST)["theta"] == 0.0
    assert sphero.outputs(0.0, in_line(sphero, 1e-9), REST)["theta"] == pytest.approx(1e-9, rel=1e-12)


def test_the_quaternion_turns_the_shell_with_its_angular_velocity(samples: Samples) -> None:
    def rotation(q: Any) -> Any:
        # quadratic in q: its central difference is exact
        return (q[0] ** 2 - q[1:] @ q[1:]) * np.eye(3) + 2 * np.outer(q[1:], q[1:]) + 2 * q[0] * cross(q[1:])

    for machine, _, x, Q in samples:
        q, q_dot = x[ATTITUDE], machine.derivatives(0.0, x, Q)[ATTITUDE]
        change = (rotation(q + q_dot) - rotation(q - q_dot)) / 2
        close(change, cross(x[OMEGA]) @ rotation(q), 1e-13)


# printed numbers


def test_printed_rates_and_forces(sphero: Machine, agree_in_print: Print) -> None:
    x, by_hand = printed_start(sphero), ByHand(sphero)
    rates = sphero.derivatives(0.0, x, TORQUE)
    agree_in_print(rates[:5], "0.3000000000, -0.1500000000, -0.03200000000, -0.004000000000, -0.01200000000")
    agree_in_print(0.15 * np.array([rates[6], -rates[5]]), "0.448981738, -0.3292139626")
    agree_in_print(rates[5:11], "2.194759751, 2.993211587, -3.333333333, 27.52235041, 7.293955896, 4.015628591")
    agree_in_print([*by_hand.w(x), *by_hand.r0(x)], "1.636363636, -2.181818182, 3.03030303, 1.027876482, -1.36441034")
    agree_in_print(sphero.energy(0.0, x), "-0.3267366304")
    agree_in_print(by_hand.integrals(x), "1.097440000, -0.5503200000, 3.000000000, -1.396000000, 0.03189748364")
    outputs = sphero.outputs(0.0, x, TORQUE)
    agree_in_print([outputs[f"N_{axis}"] for axis in "xyz"], "1.034012175, 0.8861426418, 28.16502781")


def test_a_free_run_ends_in_the_printed_state(sphero: Machine, flow: Flow, agree_in_print: Print) -> None:
    printed = "1.503600509, -0.7738535924, 0.03497665345, 0.5932896532, -0.8042288363, 1.074232295, 1.984255601, "
    printed += "3.000000000, 0.5819752827, -0.9027300765, 1.095179747, "
    printed += "-0.994855633, -0.06870244506, 0.03068352539, 0.06782893758"
    agree_in_print(flow(sphero, printed_start(sphero), 5.0, REST)[:STATE, -1], printed)


def test_a_run_under_torque_ends_in_the_printed_state(sphero: Machine, flow: Flow, agree_in_print: Print) -> None:
    printed = "1.632458019, 0.8104889539, 0.179007483, 0.3525896107, -0.9184970808, -3.699730466, 7.520853794, "
    printed += "-10.00000000, -1.548304367, -0.2582093624, 5.510753345, "
    printed += "-0.9739813583, 0.08087078964, -0.1151461703, 0.1776558151"
    agree_in_print(flow(sphero, sphero.state({}), 3.0, TORQUE)[:STATE, -1], printed)


# integrals, energy, norms


def test_six_quantities_are_constant_without_torques_and_friction(frictionless: Samples, flow: Flow) -> None:
    for machine, by_hand, x0, _ in frictionless[:6]:
        x = flow(machine, x0, TIMES[:4], REST)
        # the solver's error over 2 s, and some of these machines swing fast
        close(np.array([by_hand.integrals(each) for each in x.T]), [by_hand.integrals(x0)] * 4, 1e-10)
        energies = np.array([machine.energy(0.0, each) for each in x.T])
        assert_allclose(energies, machine.energy(0.0, x0), rtol=0, atol=1e-10 * sum(np.abs(machine.energies(0.0, x0))))


def test_torques_change_the_integrals_as_stated(frictionless: Samples) -> None:
    for machine, by_hand, x, Q in frictionless:
        rates, p, n = machine.derivatives(0.0, x, Q), by_hand.p, x[N]
        n_dot = by_hand.n_dot(x)
        swing = np.cross(rates[PENDULUM], n) + np.cross(x[PENDULUM], n_dot)
        v_dot = p["R"] * np.array([rates[OMEGA_Y], -rates[OMEGA][0]])
        s, s_dot = x[PENDULUM] @ n, rates[PENDULUM] @ n + x[PENDULUM] @ n_dot
        close(by_hand.mu * v_dot + by_hand.ml * swing[:2], np.cross(E_Z, Q)[:2] / p["R"], 1e-10)
        assert p["I"] * rates[OMEGA_Z] == pytest.approx(-Q[2], rel=1e-12)
        assert p["C3"] * s_dot == pytest.approx(Q @ n, abs=1e-11)
        K_dot = (by_hand.A - by_hand.ml**2 / by_hand.mu) * np.cross(n, swing)[2]
        K_dot += p["C3"] * (s_dot * n[2] + s * n_dot[2])
        expected = Q[2] - by_hand.ml / (by_hand.mu * p["R"]) * np.cross(n, np.cross(E_Z, Q))[2]
        assert K_dot == pytest.approx(expected, abs=1e-11)


def test_rk4_converges_with_order_four(sphero: Machine, flow: Flow) -> None:
    """The sheet prints 4.3e-4, 3.2e-5, 2.1e-6, 1.4e-7, 3.5e-9 for RK4 without any care of the norms.

    Here each step ends with the norms restored, which moves the first and the fourth of them to 4.6e-4 and 1.3e-7.
    """
    x0 = printed_start(sphero)
    exact, errors = flow(sphero, x0, 5.0, REST)[:, -1], []
    for step_ns in (20_000_000, 10_000_000, 5_000_000, 2_500_000, 1_000_000):
        x = x0.copy()
        sphero.advancer("rk4")(0, 5_000_000_000 // step_ns, step_ns, x, REST, sphero.c)
        errors.append(np.abs(x - exact)[:STATE].max())
    assert_allclose(errors, [4.6e-4, 3.2e-5, 2.1e-6, 1.3e-7, 3.5e-9], rtol=0.035)  # half of the last digit
    orders = np.log(np.array(errors[:-1]) / errors[1:]) / np.log([2, 2, 2, 2.5])
    assert_allclose(orders[1:], 4.0, atol=0.08)
    assert abs(sphero.energy(5.0, x) - sphero.energy(0.0, x0)) < 2e-12


@pytest.mark.parametrize("step_ms", [1, 5, 20])
def test_norms_and_energy_stay_for_minutes(sphero: Machine, step_ms: int) -> None:
    x = printed_start(sphero)
    before = sphero.energy(0.0, x)
    assert sphero.advancer("rk4")(0, 760_000 // step_ms, step_ms * 1_000_000, x, REST, sphero.c)
    assert_allclose([np.linalg.norm(x[N]), np.linalg.norm(x[ATTITUDE])], 1.0, rtol=0, atol=4e-16)
    assert x[OMEGA_Z] == 3.0
    assert sphero.energy(760.0, x) == pytest.approx(before, abs=5e-10) or step_ms > 1  # 1e-12 J in the first 5 s


# the brake


def test_a_brake_torque_is_a_joint_friction(sphero: Machine, rng: np.random.Generator) -> None:
    braked = sphero.with_parameters({"c_j": 0.05})
    for _ in range(20):
        x = random_state(rng)
        brake = -0.05 * (x[PENDULUM] - x[OMEGA])
        close(sphero.derivatives(0.0, x, brake), braked.derivatives(0.0, x, REST), 1e-13)


def braking(machine: Machine, x: Any, seconds: int) -> tuple[Any, Any]:
    """The energies every 10 ms under the brake, and the end."""
    braked = machine.with_parameters({"c_j": 0.05})
    energies = [braked.energy(0.0, x)]
    for _ in range(100 * seconds):
        braked.advancer("rk4")(0, 10, 1_000_000, x, REST, braked.c)
        energies.append(braked.energy(0.0, x))
    return np.array(energies), x


def test_the_brake_only_takes_energy_out_until_all_hangs_and_spins_together(
    sphero: Machine, rng: np.random.Generator
) -> None:
    without_spin = in_line(sphero, 2.0, theta_dot=3.0, v=1.0)
    starts = [printed_start(sphero), in_line(sphero, 1.0), in_line(sphero, 3.0, v=-1.0), random_state(rng)]
    for x in (without_spin, *starts):
        energies, end = braking(sphero, x, 40)
        assert np.diff(energies).max() < 1e-15 + 1e-15 * energies[0]  # rounding
        spin = 0.0 if x is without_spin else end[OMEGA_Z]
        assert_allclose(end[N], [0, 0, -1], rtol=0, atol=1e-8)
        assert_allclose(end[5:11], [0, 0, spin, 0, 0, spin], rtol=0, atol=1e-8)
        assert energies[-1] == pytest.approx(-2.0 * 0.04 * 9.81 + 0.5 * (0.015 + 0.0288) * spin**2, abs=1e-12)


def growth(machine: Machine, up: float, spin: float) -> float:
    """The fastest growth rate about the common vertical spin, the pendulum upright or hanging."""
    moving, h = [2, 3, 5, 6, 8, 9], 1e-4
    x = at(machine, (0, 0, up), (0, 0, spin), (0, 0, spin))
    columns = []
    for each in moving:
        step = h * (np.arange(16) == each)
        difference = machine.derivatives(0.0, x + step, REST) - machine.derivatives(0.0, x - step, REST)
        columns.append(difference[moving] / (2 * h))
    return float(np.linalg.eigvals(np.array(columns).T).real.max())


def spin_limit(machine: Machine, up: float) -> float:
    """The common vertical spin at which the upright (1) or the hanging (-1) pendulum changes its stability."""
    by_hand = ByHand(machine)
    g, R, C3 = (by_hand.p[name] for name in ("g", "R", "C3"))
    rise = 1 + up * by_hand.ml / (by_hand.mu * R)
    return float(rise * np.sqrt(up * by_hand.ml * g / (C3 * rise - by_hand.A + by_hand.ml**2 / by_hand.mu)))


@pytest.mark.parametrize("c_j", [0.005, 0.05, 0.5])
def test_with_joint_friction_a_fast_common_spin_keeps_a_flat_pendulum_upright(
    sphero: Machine, agree_in_print: Print, c_j: float
) -> None:
    machine, limit = sphero.with_parameters({"c_j": c_j}), spin_limit(sphero, 1.0)
    agree_in_print(limit, "7.752130288")
    assert growth(machine, 1.0, 0.999 * limit) > 0 > growth(machine, 1.0, 1.001 * limit)
    assert max(growth(machine, -1.0, spin) for spin in (0.0, 5.0, 20.0)) < 0


def test_with_joint_friction_a_slender_pendulum_spun_fast_does_not_hang(sphero: Machine, agree_in_print: Print) -> None:
    machine = sphero.with_parameters({"C3": 0.004, "c_j": 0.05})
    limit = spin_limit(machine, -1.0)
    agree_in_print(limit, "6.788408358")
    assert growth(machine, -1.0, 0.999 * limit) < 0 < growth(machine, -1.0, 1.001 * limit)
    assert min(growth(machine, 1.0, spin) for spin in (0.0, 5.0, 20.0)) > 0


def test_braked_from_high_and_fast_the_pendulum_ends_upright(sphero: Machine) -> None:
    """The limit of the braked energy is +mgl here, not the -mgl of slow starts."""
    energies, end = braking(sphero, at(sphero, (0.6, 0, 0.8), (10, 20, 5), (-0.5, 0.7, 20)), 90)
    assert np.diff(energies).max() < 2e-15 * energies[0]
    assert end[N] == pytest.approx([0, 0, 1], abs=1e-8)
    assert end[OMEGA_Z] > spin_limit(sphero, 1.0)
    assert_allclose(end[5:11], end[OMEGA_Z] * np.array([0, 0, 1, 0, 0, 1]), rtol=0, atol=1e-8)
    assert energies[-1] == pytest.approx(2.0 * 0.04 * 9.81 + 0.5 * (0.015 + 0.0288) * end[OMEGA_Z] ** 2, abs=1e-12)


# symmetry


def turned(x: Any, angle: float) -> Any:
    """A state or its rates turned about the vertical."""
    c, s = np.cos(angle), np.sin(angle)
    turn, half = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]), np.array([np.cos(angle / 2), np.sin(angle / 2)])
    q = x[ATTITUDE]
    attitude = half[0] * q + half[1] * np.array([-q[3], -q[2], q[1], q[0]])
    place = turn[:2, :2] @ x[PLACE]
    return np.array([*place, *turn @ x[N], *turn @ x[OMEGA], *turn @ x[PENDULUM], *attitude, x[WORK]])


def test_turned_about_the_vertical_the_machine_moves_as_turned(samples: Samples) -> None:
    for machine, _, x, Q in samples:
        angle = 3 * x[0]
        c, s = np.cos(angle), np.sin(angle)
        torque = np.array([c * Q[0] - s * Q[1], s * Q[0] + c * Q[1], Q[2]])
        rates = machine.derivatives(0.0, turned(x, angle), torque)
        close(rates, turned(machine.derivatives(0.0, x, Q), angle), 1e-12)


def test_without_joint_friction_the_shell_s_vertical_spin_moves_nothing_else(samples: Samples) -> None:
    for machine, _, x, Q in samples:
        for c_j in (0.0, 0.01):
            machine = machine.with_parameters({"c_j": c_j})
            spun = x + 5.0 * (np.arange(16) == OMEGA_Z)
            change = machine.derivatives(0.0, spun, Q) - machine.derivatives(0.0, x, Q)
            expected = -(machine.parameters["c_r"] + c_j) / machine.parameters["I"] * 5.0
            assert change[OMEGA_Z] == pytest.approx(expected, rel=1e-10, abs=1e-12)
            assert np.all(np.delete(change, [OMEGA_Z, 11, 12, 13, 14, WORK]) == 0.0) == (c_j == 0.0)


# straight rolling


def test_straight_rolling_is_a_cart_with_a_pendulum(samples: Samples, rng: np.random.Generator) -> None:
    for machine, by_hand, _, _ in samples:
        machine = machine.with_parameters({"c_j": 0.0, "c_r": 0.0})
        p, ml, A, mu = by_hand.p, by_hand.ml, by_hand.A, by_hand.mu
        theta, theta_dot, v, tau = rng.uniform(-1, 1, 4) * [3.1, 5, 2, 1]
        rates = machine.derivatives(0.0, in_line(machine, theta, theta_dot, v), np.array([0, -tau, 0]))
        x_ddot, theta_ddot, s, c = p["R"] * rates[OMEGA_Y], -rates[PENDULUM_Y], np.sin(theta), np.cos(theta)
        scale = np.abs([mu * x_ddot, ml * theta_ddot, ml * theta_dot**2, tau / p["R"]]).max()
        assert abs(mu * x_ddot + ml * (theta_ddot * c - theta_dot**2 * s) - tau / p["R"]) < 1e-12 * scale
        scale = np.abs([A * theta_ddot, ml * x_ddot, ml * p["g"], tau]).max()
        assert abs(A * theta_ddot + ml * x_ddot * c + ml * p["g"] * s - tau) < 1e-12 * scale
        pull = tau * (1 / p["R"] - ml / A * c) + ml * s * (theta_dot**2 + ml * p["g"] / A * c)
        assert x_ddot == pytest.approx(pull / (mu - by_hand.k * c**2), rel=1e-11, abs=1e-12)
        across = np.delete(rates[:STATE], [0, 2, 4, OMEGA_Y, PENDULUM_Y, 11, 13])
        assert np.all(across == 0.0)


def test_a_steady_torque_holds_its_tilt(sphero: Machine, flow: Flow, agree_in_print: Print) -> None:
    theta = ByHand(sphero).steady_tilt(0.3 / (11 / 3 * 0.15))
    agree_in_print(np.degrees(theta), "19.25490291")
    x = flow(sphero, in_line(sphero, theta), TIMES, np.array([0, -0.3, 0]))  # forward
    tilts = [sphero.outputs(0.0, each, REST)["theta"] for each in x.T]
    assert_allclose(tilts, theta, rtol=0, atol=1e-12)
    agree_in_print(0.15 * x[OMEGA_Y] / TIMES, ", ".join(["0.5454545455"] * len(TIMES)))
    assert_allclose(x[0], 0.3 / (11 / 3 * 0.15) * TIMES**2 / 2, rtol=1e-12)


def test_small_swings_have_the_free_frequency(sphero: Machine, flow: Flow, agree_in_print: Print) -> None:
    by_hand = ByHand(sphero)
    expected = np.sqrt(by_hand.ml * 9.81 / (by_hand.A - by_hand.ml**2 / by_hand.mu))
    agree_in_print(expected, "7.035623640")
    t = 10.5 * np.pi / expected  # the pendulum passes the bottom
    x = flow(sphero, in_line(sphero, 1e-3), t, REST)[:, -1]
    passed = t + x[N][0] / x[PENDULUM_Y]  # theta' = -Omega_y
    assert 10.5 * np.pi / passed == pytest.approx(expected, rel=1e-7)
    assert x[PENDULUM_Y] == pytest.approx(1e-3 * expected, rel=1e-5)


def test_steady_tilts_exist_up_to_the_largest_acceleration(sphero: Machine, agree_in_print: Print) -> None:
    by_hand = ByHand(sphero)
    a_max, tau_max = by_hand.largest_acceleration, by_hand.mu * 0.15 * by_hand.largest_acceleration
    agree_in_print([a_max, tau_max], "1.4422474862, 0.7932361174")
    theta_max = np.arccos(by_hand.ml / (by_hand.mu * 0.15))
    agree_in_print(np.degrees(theta_max), "81.6364")
    # the tilt grows as a root of what is left to the largest acceleration: rounding there is 1e-8
    assert by_hand.steady_tilt(a_max * (1 - 1e-15)) == pytest.approx(theta_max, abs=1e-6)
    for a in a_max * np.linspace(0, 0.9999, 12):
        rates = sphero.derivatives(
            0.0, in_line(sphero, by_hand.steady_tilt(a)), np.array([0, -by_hand.mu * 0.15 * a, 0])
        )
        assert rates[PENDULUM_Y] == pytest.approx(0.0, abs=1e-11)
        assert 0.15 * rates[OMEGA_Y] == pytest.approx(a, abs=1e-12)


def test_a_torque_above_the_largest_holds_no_tilt_and_the_pendulum_runs_over(sphero: Machine) -> None:
    by_hand = ByHand(sphero)
    tau_max = by_hand.mu * 0.15 * by_hand.largest_acceleration
    tilts = np.linspace(-np.pi, np.pi, 2001)

    def swings(tau: float) -> Any:
        return [-sphero.derivatives(0.0, in_line(sphero, a), np.array([0, -tau, 0]))[PENDULUM_Y] for a in tilts]

    assert min(swings(0.999 * tau_max)) < 0 < min(swings(1.001 * tau_max))
    for factor, over in ((0.99, False), (1.01, True)):
        x, highest = in_line(sphero, by_hand.steady_tilt(0.99 * by_hand.largest_acceleration)), -1.0
        for k in range(600):
            sphero.advancer("rk4")(10 * k, 10, 1_000_000, x, np.array([0, -factor * tau_max, 0]), sphero.c)
            highest = max(highest, x[N][2])
        assert (highest > 0.99) == over


def test_a_point_pendulum_is_a_machine_too(sphero: Machine, flow: Flow) -> None:
    machine = sphero.with_parameters({"l": 0.1, "i": 0.004, "C3": 0.003})  # A < m l R: some programs refuse it
    x0 = in_line(machine, 1.2, theta_dot=1.0, v=0.5)
    assert machine.warnings(0.0, at(machine), REST) == []
    end = flow(machine, x0, 5.0, REST)[:, -1]
    assert machine.energy(5.0, end) == pytest.approx(machine.energy(0.0, x0), abs=1e-11)


# warnings, bounds, names, picture

LIFTED, SLIPS, TILTED = "lifted", "would slip", "tilt above 75"


def test_the_lift_warning_begins_where_the_floor_force_ends(sphero: Machine) -> None:
    limit = np.sqrt(3.0 * 9.81 / 0.08)  # upright N_z = (M + m) g - m l Omega_y^2
    for factor, lifts in ((1 - 1e-9, False), (1 + 1e-9, True)):
        x = at(sphero, (0, 0, 1), REST, (0, factor * limit, 0))
        assert warns(sphero, x, REST, LIFTED) == lifts
    assert sphero.warnings(0.0, sphero.state({}), REST) == []


def test_the_slip_warning_begins_at_the_friction_cone(sphero: Machine) -> None:
    x = printed_start(sphero)
    outputs = sphero.outputs(0.0, x, TORQUE)
    limit = np.hypot(outputs["N_x"], outputs["N_y"]) / outputs["N_z"]
    assert not warns(sphero.with_parameters({"mu_f": limit * (1 + 1e-9)}), x, TORQUE, SLIPS)
    assert warns(sphero.with_parameters({"mu_f": limit * (1 - 1e-9)}), x, TORQUE, SLIPS)


@pytest.mark.parametrize("direction", [1, -1])
def test_the_tilt_fault_begins_at_75_degrees(sphero: Machine, direction: int) -> None:
    for tilt, over in ((75 - 1e-7, False), (75 + 1e-7, True)):
        x = in_line(sphero, direction * np.radians(tilt))
        assert fault_text(sphero, x).startswith(TILTED) == over
    assert -np.cos(np.radians(75)) == pytest.approx(-0.2588190451, abs=1e-10)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"l": 0.1501, "i": 1e-4, "C3": 1e-4}, "outside the shell (l >= R)"),
        ({"C3": 0.02881}, "(C3 > 2 i)"),
        ({"l": 0.13, "i": 0.0113, "C3": 0.01}, "(i + m l^2 > m R^2)"),
    ],
)
def test_a_pendulum_that_no_body_can_be_is_warned_of(sphero: Machine, changes: dict[str, float], text: str) -> None:
    assert warns(sphero.with_parameters(changes), at(sphero), REST, text)


@pytest.mark.parametrize("i", [0.0144, 0.1, 0.7 / 3])
def test_a_flat_ring_is_a_body(sphero: Machine, i: float) -> None:
    for C3 in (2 * i, float(f"{2 * i:.12g}")):
        assert not warns(sphero.with_parameters({"i": i, "C3": C3}), at(sphero), REST, "C3")


def test_the_default_shell_is_thin_and_the_pendulum_a_ring(sphero: Machine) -> None:
    p, by_hand = sphero.parameters, ByHand(sphero)
    assert p["I"] == pytest.approx(2 / 3 * p["M"] * p["R"] ** 2, rel=1e-15)
    assert p["C3"] == pytest.approx(p["m"] * 0.12**2, rel=1e-15)
    assert p["i"] == pytest.approx(p["C3"] / 2, rel=1e-15)
    assert [by_hand.A, by_hand.mu] == pytest.approx([0.0176, 11 / 3], rel=1e-15)


def test_states_and_inputs_have_the_names_and_start_of_the_page(sphero: Machine) -> None:
    description = sphero.description
    vectors = {"n": 3, "omega": 3, "Omega": 3, "q": 4}
    entries = [f"{name}_{k}" for name, size in vectors.items() for k in range(size)]
    assert description.state_names == ("X", "Y", *entries)
    assert description.input_names == ("Q_x", "Q_y", "Q_z")
    assert_allclose(sphero.state({}), [0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], atol=0)


def test_the_outline_shows_shell_and_pendulum_from_above(sphero: Machine) -> None:
    state = {"X": 3.0, "Y": -1.0, "n_0": 0.36, "n_1": -0.48, "n_2": -0.8}
    shell, pendulum = outline(sphero, state)
    centre = np.array([3.0, -1.0])
    assert_allclose(np.linalg.norm(shell - centre, axis=1), 0.15, rtol=1e-14)
    assert_allclose(shell[0], shell[-1], atol=1e-15)
    assert_allclose(pendulum, [centre, centre + 0.15 * np.array([0.36, -0.48])], rtol=0, atol=1e-15)
