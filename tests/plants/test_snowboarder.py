"""Snowboarder: against its equations written by hand twice, printed states, closed forms, energy, warnings."""

from collections.abc import Callable
from dataclasses import dataclass
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
X0, Y0, PHI0, THETA, SIGMA, V, OMEGA, THETA_DOT, SIGMA_DOT, WORK = range(10)
REST = np.zeros(4)
PRINTED_START = (2, 1, 0.3, 0.15, -0.25, 6, 0.4, -0.2, 0.5, 0)
PRINTED_INPUTS = np.array([10.0, 2.0, 15.0, -40.0])


@dataclass
class Pose:
    """Triples in the blade's axes t, b, n at one state."""

    x: Any

    def __post_init__(self) -> None:
        _, _, _, theta, sigma, _, omega, theta_dot, sigma_dot = self.x[:9]
        st, ct, ss, cs = np.sin(theta), np.cos(theta), np.sin(sigma), np.cos(sigma)
        self.E = np.array([cs * st, ss, cs * ct])
        self.E_theta = np.array([cs * ct, 0, -cs * st])
        self.E_sigma = np.array([-ss * st, cs, -ss * ct])
        self.E_omega = np.array([-self.E[1], self.E[0], 0])
        self.r = self.E_theta * theta_dot + self.E_sigma * sigma_dot
        self.e_dot = self.r + omega * self.E_omega
        coriolis = 2 * theta_dot * sigma_dot
        self.beta_0 = np.array([  # E'' without accelerations, the blade's axes at rest
            -self.E[0] * (theta_dot**2 + sigma_dot**2) - ss * ct * coriolis,
            -self.E[1] * sigma_dot**2,
            -self.E[2] * (theta_dot**2 + sigma_dot**2) + ss * st * coriolis,
        ])  # fmt: skip
        turn = np.array([-self.E[0] * omega - 2 * self.r[1], -self.E[1] * omega + 2 * self.r[0], 0])
        self.beta = self.beta_0 + omega * turn
        self.c = np.copysign(np.hypot(*self.E[:2]), self.E[0])


class ByHand:
    """The snowboarder from pencil and paper: explicit, and with multipliers in six coordinates."""

    def __init__(self, machine: Machine, gravity: str) -> None:
        self.p = p = machine.parameters
        self.full = 1.0 if gravity == "full" else 0.0
        self.M, self.mu = p["m0"] + p["m1"], p["m1"] * p["l1"] * p["n1"]
        self.I = self.mu * p["l1"] * p["n1"] + p["J1"]
        self.L = self.I / self.mu

    def weight(self, x: Any) -> Any:
        g, alpha, phi0 = self.p["g"], self.p["alpha"], x[PHI0]
        return g * np.array([np.sin(alpha) * np.cos(phi0), -np.sin(alpha) * np.sin(phi0), -np.cos(alpha)])

    def drag(self, v: float) -> float:
        return self.p["c1"] * v + self.p["c2"] * v * abs(v)

    def joint(self, x: Any, u: Any) -> Any:
        """The force f across the body, times length, of the inputs F_t, N_s, M_theta, M_sigma."""
        pose = Pose(x)
        return u[2] / np.cos(x[SIGMA]) ** 2 * pose.E_theta + u[3] * pose.E_sigma

    def explicit(self, x: Any, u: Any) -> Any:
        """v', omega', theta'', sigma'' without solving a system."""
        pose, G, f = Pose(x), self.weight(x), self.joint(x, u)
        E, v, squared = pose.E, x[V], pose.e_dot @ pose.e_dot
        omega_dot = (u[1] - f @ pose.E_omega) / self.p["J0"]
        h = f + self.mu * (self.full * G - v * x[OMEGA] * np.array([0, 1, 0]))
        along = u[0] - self.drag(v) + self.M * G[0] + self.mu * squared * E[0] - (h[0] - E[0] * (E @ h)) / self.L
        v_dot = along / (self.M - self.mu / self.L * (1 - E[0] ** 2))
        h[0] -= self.mu * v_dot
        e_ddot = -squared * E + (h - E * (E @ h)) / self.I
        a = e_ddot - omega_dot * pose.E_omega - pose.beta
        theta_ddot = pose.E_theta @ a / np.cos(x[SIGMA]) ** 2
        return np.array([v_dot, omega_dot, theta_ddot, pose.E_sigma @ a])

    def mass(self, x: Any) -> Any:
        st, ct, ss, cs = (f(a) for a in x[THETA : SIGMA + 1] for f in (np.sin, np.cos))
        inertia, mu = self.I, self.mu
        vv, vw, vt, vs = self.M, -mu * ss, mu * cs * ct, -mu * ss * st
        ww, wt, ws = self.p["J0"] + inertia * (1 - (cs * ct) ** 2), -inertia * ss * cs * ct, inertia * st
        return np.array([[vv, vw, vt, vs], [vw, ww, wt, ws], [vt, wt, inertia * cs**2, 0], [vs, ws, 0, inertia]])

    def multipliers(self, x: Any, u: Any) -> tuple[Any, Any]:
        """Coordinates x0, y0, phi0 and e in fixed axes; the edge and |e| = 1 as constraints: q'' (6,), (R, tension)."""
        pose, phi0, p = Pose(x), x[PHI0], self.p
        turned = np.array([[np.cos(phi0), -np.sin(phi0), 0], [np.sin(phi0), np.cos(phi0), 0], [0, 0, 1]])
        t, b, e, e_dot = turned[:, 0], turned[:, 1], turned @ pose.E, turned @ pose.e_dot
        f = self.joint(x, u)
        g = p["g"] * np.array([np.sin(p["alpha"]), 0, -np.cos(p["alpha"])])
        S, y = np.zeros((8, 8)), np.zeros(8)
        S[:2, :2], S[:2, 3:5], S[3:5, :2] = self.M * np.eye(2), self.mu * np.eye(2), self.mu * np.eye(2)
        S[2, 2], S[3:6, 3:6] = p["J0"], self.I * np.eye(3)
        S[6, :2], S[7, 3:6] = b[:2], e
        S[:2, 6], S[3:6, 7] = -b[:2], -e
        y[:2] = self.M * g[:2] + (u[0] - self.drag(x[V])) * t[:2]
        y[2] = u[1] - f @ pose.E_omega
        y[3:6] = self.full * self.mu * g + turned @ f
        y[6], y[7] = x[V] * x[OMEGA], -e_dot @ e_dot
        solved = np.linalg.solve(S, y)
        return solved[:6], solved[6:]

    def from_six(self, x: Any, q: Any) -> Any:
        """v', omega', theta'', sigma'' of the six accelerations, from tan theta = E_t/E_n and sin sigma = E_b."""
        pose, phi0, omega = Pose(x), x[PHI0], x[OMEGA]
        back = np.array([[np.cos(phi0), np.sin(phi0), 0], [-np.sin(phi0), np.cos(phi0), 0], [0, 0, 1]])
        n, E, r = np.array([0, 0, 1]), pose.E, pose.r
        inward = np.cross(n, np.cross(n, E))
        second = back @ q[3:] - 2 * omega * np.cross(n, r) - q[2] * np.cross(n, E) - omega**2 * inward
        squared = E[0] ** 2 + E[2] ** 2
        theta_ddot = (second[0] * E[2] - E[0] * second[2] - 2 * x[THETA_DOT] * (E[0] * r[0] + E[2] * r[2])) / squared
        sigma_ddot = (second[1] + E[1] * x[SIGMA_DOT] ** 2) / np.cos(x[SIGMA])
        return np.array([(back @ [*q[:2], 0])[0], q[2], theta_ddot, sigma_ddot])

    def energy(self, x: Any) -> float:
        pose, v = Pose(x), x[V]
        kinetic = self.M * v**2 / 2 + self.p["J0"] * x[OMEGA] ** 2 / 2 + self.mu * v * pose.e_dot[0]
        kinetic += self.I * (pose.e_dot @ pose.e_dot) / 2
        potential = -self.M * self.p["g"] * np.sin(self.p["alpha"]) * x[X0]
        return float(kinetic + potential - self.full * self.mu * (self.weight(x) @ pose.E))


def relative_of_absolute(x: Any, u: Any) -> Any:
    """F_t, N_s, M_theta, M_sigma of Q_x0, M_phi0, M_phi1, M_psi1."""
    pose = Pose(x)
    E, c = pose.E, pose.c
    p = np.array([-E[1] / c, E[0] / c, 0])
    q = np.array([-E[2] * E[0] / c, -E[2] * E[1] / c, c])
    f = u[2] / c * p + u[3] * q
    return np.array([u[0] * np.cos(x[PHI0]), u[1] + u[2], f @ pose.E_theta, f @ pose.E_sigma])


@pytest.fixture(scope="module")
def rider() -> Machine:
    return load_machine("snowboarder", {}, {"gravity": "full"})


@pytest.fixture(scope="module")
def paper_rider() -> Machine:
    return load_machine("snowboarder", {}, {"gravity": "paper"})


@pytest.fixture(scope="module")
def total_rider() -> Machine:
    return load_machine("snowboarder", {}, {"input_set": "total"})


@pytest.fixture(scope="module")
def absolute_rider() -> Machine:
    return load_machine("snowboarder", {}, {"input_set": "absolute"})


def random_state(rng: np.random.Generator) -> Any:
    """Any heading, body up to 75 degrees from upright, forward and backward."""
    return rng.uniform(-1, 1, 10) * np.array([50, 20, 3.1, 1.3, 1.3, 12, 3, 3, 3, 0])


def random_parameters(rng: np.random.Generator) -> dict[str, float]:
    p = {name: rng.uniform(*ends) for name, ends in {"m0": (3, 9), "l0": (1, 2), "m1": (40, 100)}.items()}
    p |= {"l1": rng.uniform(1.4, 2), "n1": rng.uniform(0.3, 0.7), "alpha": rng.uniform(0, 0.6), "g": rng.uniform(1, 12)}
    p["J0"] = rng.uniform(0.1, 0.9) * p["m0"] * p["l0"] ** 2 / 4
    p["J1"] = rng.uniform(0, 0.9) * p["m1"] * p["l1"] ** 2 * p["n1"] * (1 - p["n1"])
    return p | {"c1": rng.uniform(0, 5), "c2": rng.uniform(0, 2)}


Samples = list[tuple[Machine, ByHand, Any, Any]]


@pytest.fixture
def samples(rider: Machine, paper_rider: Machine, rng: np.random.Generator) -> Samples:
    """Machine, the same by hand, state and inputs: random riders with both gravities, every fourth the default one."""
    result = []
    for i in range(60):
        machine, gravity = ((rider, "full"), (paper_rider, "paper"))[i % 2]
        machine = machine.with_parameters(random_parameters(rng)) if i % 4 < 2 else machine
        result.append((machine, ByHand(machine, gravity), random_state(rng), 50 * rng.normal(size=4)))
    return result


def at(machine: Machine, **values: float) -> Any:
    return machine.state(values)


@pytest.mark.slow
def test_the_samples_turn_beyond_the_fall_line_with_both_gravities(samples: Samples) -> None:
    headings = {(by_hand.full, abs(x[PHI0]) > np.pi / 2) for _, by_hand, x, _ in samples}
    assert headings == {(gravity, beyond) for gravity in (0.0, 1.0) for beyond in (False, True)}


def test_derived_rates_are_the_explicit_ones_and_those_of_six_coordinates_with_multipliers(samples: Samples) -> None:
    for machine, by_hand, x, u in samples:
        rates = machine.derivatives(0.0, x, u)
        close(rates[V:WORK], by_hand.explicit(x, u), 1e-11)
        moves = [x[V] * np.cos(x[PHI0]), x[V] * np.sin(x[PHI0]), *x[[OMEGA, THETA_DOT, SIGMA_DOT]]]
        close(rates[:V], moves, 1e-15)
        q, (R, _) = by_hand.multipliers(x, u)
        close(rates[V:WORK], by_hand.from_six(x, q), 1e-11)
        accelerations, forces = machine.full(0.0, x, u)
        close(accelerations[:3], q[:3], 1e-11)
        # a few hundred newtons stay of thousands
        assert_allclose(forces, [R], rtol=0, atol=1e-11 * (abs(R) + by_hand.M * abs(x[V] * x[OMEGA])))


def test_the_mass_matrix_is_that_written_by_hand(samples: Samples) -> None:
    for machine, by_hand, x, _ in samples:
        G = np.zeros((5, 4))
        G[:2, 0], G[2:, 1:] = (np.cos(x[PHI0]), np.sin(x[PHI0])), np.eye(3)
        M = G.T @ machine.matrices(0.0, x).M @ G
        close(M, by_hand.mass(x), 1e-13)
        E_t, inertia = Pose(x).E[0], by_hand.I
        product = by_hand.p["J0"] * inertia * np.cos(x[SIGMA]) ** 2
        product *= by_hand.M * inertia - by_hand.mu**2 * (1 - E_t**2)
        assert np.linalg.det(M) == pytest.approx(product, rel=1e-10)  # its entries cancel to a hundredth


def test_energy_is_that_written_by_hand_and_power_that_of_the_inputs_less_the_drag(samples: Samples) -> None:
    for machine, by_hand, x, u in samples:
        assert machine.energy(0.0, x) == pytest.approx(by_hand.energy(x), rel=1e-12, abs=1e-9)
        terms = np.array([*u * x[V:WORK], -by_hand.drag(x[V]) * x[V]])
        assert_allclose(machine.derivatives(0.0, x, u)[WORK], terms.sum(), rtol=0, atol=1e-13 * np.abs(terms).max())


def test_the_source_equations_of_absolute_angles_hold(samples: Samples) -> None:
    """Quasi-velocities v, omega with the absolute azimuth phi and elevation psi of the body."""
    for machine, by_hand, x, absolute in samples:
        pose, p, full, mu = Pose(x), machine.parameters, by_hand.full, by_hand.mu
        rates = machine.derivatives(0.0, x, relative_of_absolute(x, absolute))
        v_dot, omega_dot, theta_ddot, sigma_ddot = rates[V:WORK]
        E, r, c, v, omega = pose.E, pose.r, pose.c, x[V], x[OMEGA]
        second = pose.E_theta * theta_ddot + pose.E_sigma * sigma_ddot + pose.beta_0
        turn = (E[0] * r[1] - E[1] * r[0]) / c**2
        turn_dot = (E[0] * second[1] - E[1] * second[0] - 2 * turn * (E[0] * r[0] + E[1] * r[1])) / c**2
        phi_dot, phi_ddot = omega + turn, omega_dot + turn_dot
        psi_dot = r[2] / c
        psi_ddot = (second[2] + E[2] * psi_dot**2) / c
        cd, sd, sp, cp = E[0] / c, E[1] / c, E[2], c
        cos_phi, sin_phi = np.array([[cd, -sd], [sd, cd]]) @ [np.cos(x[PHI0]), np.sin(x[PHI0])]
        slope, steep = p["g"] * np.sin(p["alpha"]), p["g"] * np.cos(p["alpha"])
        inward = sp * psi_ddot + cp * (psi_dot**2 + phi_dot**2)
        across = cp * phi_ddot - 2 * sp * psi_dot * phi_dot
        terms = [
            [by_hand.M * v_dot, -mu * inward * cd, -mu * across * sd, by_hand.drag(v),
             -(by_hand.M * slope + absolute[0]) * np.cos(x[PHI0])],
            [p["J0"] * omega_dot, -absolute[1]],
            [by_hand.I * cp * across, mu * cp * v * omega * cd, -mu * cp * v_dot * sd,
             full * mu * slope * cp * sin_phi, -absolute[2]],
            [by_hand.I * psi_ddot, by_hand.I * sp * cp * phi_dot**2, -mu * sp * v_dot * cd, -mu * sp * v * omega * sd,
             full * mu * steep * cp, full * mu * slope * sp * cos_phi, -absolute[3]],
        ]  # fmt: skip
        for equation in terms:
            # near the upright pose the angles' own accelerations are large differences
            assert abs(sum(equation)) <= 1e-11 * np.abs(equation).max() / c**2


@pytest.mark.slow
def test_absolute_inputs_move_the_rider_as_their_relative_equivalents(
    rider: Machine, absolute_rider: Machine, rng: np.random.Generator
) -> None:
    for _ in range(40):
        x, u = random_state(rng), 50 * rng.normal(size=4)
        same = relative_of_absolute(x, u)
        close(absolute_rider.derivatives(0.0, x, u), rider.derivatives(0.0, x, same), 1e-11)
        outputs, expected = absolute_rider.outputs(0.0, x, u), rider.outputs(0.0, x, same)
        close([outputs[name] for name in ("F_t", "N_s", "M_theta", "M_sigma")], same, 1e-12)
        close([outputs[name] for name in ("N", "c_t", "c_b")], [expected[name] for name in ("N", "c_t", "c_b")], 1e-11)
        pushed = u[0] * np.sin(x[PHI0])  # a force down the fall line also presses on the edge
        assert outputs["R"] == pytest.approx(expected["R"] + pushed, rel=1e-10, abs=1e-8)


def test_near_upright_the_absolute_moments_are_warned_of(absolute_rider: Machine) -> None:
    for theta in (-0.06, 0.06, -0.04, 0.04):
        warned = any("upright" in text for text in absolute_rider.warnings(0.0, at(absolute_rider, theta=theta), REST))
        assert warned == (abs(theta) < 0.05)


@pytest.mark.slow
def test_a_whole_yaw_moment_turns_the_blade_alone(
    rider: Machine, total_rider: Machine, rng: np.random.Generator
) -> None:
    for _ in range(40):
        x, u = random_state(rng), 50 * rng.normal(size=4)
        rates, outputs = total_rider.derivatives(0.0, x, u), total_rider.outputs(0.0, x, u)
        assert rates[OMEGA] == pytest.approx(u[1] / 1.28, rel=1e-10, abs=1e-9)
        same = np.array([u[0], outputs["N_s"], *u[2:]])
        close(rates, rider.derivatives(0.0, x, same), 1e-11)
        expected = rider.outputs(0.0, x, same)
        assert expected["M_phi0"] == pytest.approx(u[1], rel=1e-10, abs=1e-10)
        names = ("R", "N", "c_t", "c_b")
        close([outputs[name] for name in names], [expected[name] for name in names], 1e-11)
        reaction = -u[2] * np.tan(x[SIGMA]) * np.cos(x[THETA]) + u[3] * np.sin(x[THETA])
        assert outputs["N_s"] == pytest.approx(u[1] + reaction, rel=1e-12, abs=1e-10)


def test_printed_rates_forces_and_energy(rider: Machine, paper_rider: Machine, agree_in_print: Print) -> None:
    printed = {
        rider: "-1.19669936838, 3.27375367080, 3.31042584263, -5.08268055821, -67.4008492786, 611.621917132, "
        "-0.0245249550087, 0.0656013286825, 1695.34893885",
        paper_rider: "4.56780450985, 3.27375367080, -4.02949363985, -2.97627055946, 61.1775399407, 711.038904424, "
        "-0.0210958920907, 0.0564289944833, 1129.43249665",
    }
    x = np.array(PRINTED_START, dtype=float)
    for machine, text in printed.items():
        rates, outputs = machine.derivatives(0.0, x, PRINTED_INPUTS), machine.outputs(0.0, x, PRINTED_INPUTS)
        forces = [outputs[name] for name in ("R", "N", "c_t", "c_b")]
        agree_in_print([*rates[V:WORK], *forces, machine.energy(0.0, x)], text)
        agree_in_print([outputs["phi1"], outputs["psi1"]], "-0.741295140014, 1.28005831913")


def test_a_run_ends_in_the_printed_state(rider: Machine, flow: Flow, agree_in_print: Print) -> None:
    x = flow(rider, np.array(PRINTED_START, dtype=float), 0.5, PRINTED_INPUTS)[:, -1]
    printed = "4.50863865468, 2.48655069442, 0.838396382597, 0.0763375244904, -1.05952149645, 6.38557700503, "
    agree_in_print(x[:9], printed + "0.667510646925, -1.51920870772, -4.19496077425")


def test_display_angles_show_the_body_s_direction_and_upright_the_blade_s_heading(
    rider: Machine, rng: np.random.Generator
) -> None:
    for _ in range(40):
        x = random_state(rng)
        E, outputs = Pose(x).E, rider.outputs(0.0, x, REST)
        turn, psi = outputs["phi1"] - x[PHI0], outputs["psi1"]
        assert abs(turn) <= np.pi / 2
        close([np.cos(psi) * np.cos(turn), np.cos(psi) * np.sin(turn), np.sin(psi)], E, 1e-14)
        assert outputs["E_n"] == pytest.approx(E[2], rel=1e-14)
    for theta in (0.0, -0.1):
        outputs = rider.outputs(0.0, at(rider, phi0=0.7, theta=theta), REST)
        assert [outputs["phi1"], outputs["psi1"]] == pytest.approx([0.7, np.pi / 2 - theta])


def test_down_the_fall_line_an_upright_rider_gains_the_slope_s_gravity(rider: Machine) -> None:
    for speed in (-2.0, 0.0, 9.0):
        rates = rider.derivatives(0.0, at(rider, v=speed), REST)
        close(rates[V:WORK], [9.81 * np.sin(0.15), 0, 0, 0], 1e-15)


def test_upright_the_rider_falls_at_the_printed_rates(rider: Machine, agree_in_print: Print) -> None:
    def rates(i: int, step: float) -> Any:
        x = at(rider, v=5.0)
        x[i] += step
        return rider.derivatives(0.0, x, REST)[:9]

    h = 1e-3  # fourth order: errors of h**4 and of rounding over h are 1e-12
    jacobian = np.array(
        [(8 * (rates(i, h) - rates(i, -h)) - rates(i, 2 * h) + rates(i, -2 * h)) / (12 * h) for i in range(9)]
    ).T
    growth = np.sort(np.linalg.eigvals(jacobian[np.ix_([THETA, SIGMA, 7, 8], [THETA, SIGMA, 7, 8])]).real)
    agree_in_print(growth[::-1], "5.112868499, 2.843097529, -2.843097529, -5.112868499")
    by_hand = ByHand(rider, "full")
    topple = by_hand.mu * 9.81 * np.cos(0.15)
    rates_by_hand = [topple / (by_hand.I - by_hand.mu**2 / by_hand.M), topple / by_hand.I]
    assert_allclose(growth[:1:-1] ** 2, rates_by_hand, rtol=1e-9)


def test_with_the_papers_gravity_the_weight_pulls_the_blade_away(paper_rider: Machine, agree_in_print: Print) -> None:
    agree_in_print(paper_rider.derivatives(0.0, at(paper_rider, v=5.0), REST)[V], "4.741")
    held = np.array([0, 0, 63 * 9.81 * np.sin(0.15), 0])
    agree_in_print(held[2], "92.36")
    close(paper_rider.derivatives(0.0, at(paper_rider, v=5.0), held)[V:WORK], [9.81 * np.sin(0.15), 0, 0, 0], 1e-14)


def test_from_rest_quadratic_drag_leads_to_the_terminal_speed(rider: Machine, flow: Flow) -> None:
    machine = rider.with_parameters({"c2": 4.0})
    slope, M = 9.81 * np.sin(0.15), 76.0

    def balanced(t: float, x: Any) -> Any:
        # the pitch moment that keeps the body upright under drag, and feedback that does nothing upright
        return np.array([0, 0, -63 * 4.0 * x[V] * abs(x[V]) / M - 2000 * x[THETA] - 600 * x[THETA_DOT], 0])

    times = np.array([0.5, 2.0, 5.0, 12.0])
    x = flow(machine, at(machine), times, balanced)
    terminal = np.sqrt(M * slope / 4.0)
    assert_allclose(x[V], terminal * np.tanh(slope * times / terminal), rtol=1e-11)
    assert_allclose(x[[Y0, PHI0, THETA, SIGMA]], 0.0, atol=1e-12)


@pytest.mark.parametrize("speed", [-4.0, 0.0, 7.0])
def test_across_the_slope_a_body_standing_plumb_needs_no_moment(
    rider: Machine, agree_in_print: Print, speed: float
) -> None:
    x = at(rider, phi0=np.pi / 2, sigma=0.15, v=speed)
    assert_allclose(rider.derivatives(0.0, x, REST)[V:WORK], 0.0, atol=1e-13)
    agree_in_print(rider.outputs(0.0, x, REST)["R"], "111.4150940")
    assert rider.outputs(0.0, x, REST)["N"] == pytest.approx(76 * 9.81 * np.cos(0.15), rel=1e-13)


def test_on_level_snow_a_leaning_rider_runs_a_steady_circle(rider: Machine, flow: Flow, agree_in_print: Print) -> None:
    machine, v, omega = rider.with_parameters({"alpha": 0.0}), 8.0, 0.7
    sigma = 0.5
    for _ in range(60):
        sigma = np.arctan(v * omega / (9.81 + 1.2 * omega**2 * np.cos(sigma)))
    agree_in_print(sigma, "0.4968918093")
    x = at(machine, sigma=sigma, v=v, omega=omega)
    assert_allclose(machine.derivatives(0.0, x, REST)[V:WORK], 0.0, atol=1e-13)
    end = flow(machine, x, 2.0, REST)[:, -1]  # the lean is unstable: errors grow by e^5
    center = v / omega * np.array([np.sin(omega * 2.0), 1 - np.cos(omega * 2.0)])
    assert_allclose(end[[X0, Y0, PHI0, SIGMA, V]], [*center, 1.4, sigma, v], rtol=0, atol=1e-9)


def test_the_mirrored_rider_moves_as_the_mirror_image(samples: Samples) -> None:
    mirror = np.array([1, -1, -1, 1, -1, 1, -1, 1, -1, 1])
    for machine, _, x, u in samples:
        expected = mirror * machine.derivatives(0.0, x, u)
        close(machine.derivatives(0.0, mirror * x, u * np.array([1, -1, 1, -1])), expected, 1e-13)


@pytest.mark.parametrize("name", ["theta", "sigma"])
def test_the_fall_fault_begins_at_a_tenth(rider: Machine, name: str) -> None:
    for angle, falls in ((np.arccos(0.1 + 1e-9), False), (np.arccos(0.1 - 1e-9), True)):
        for direction in (1, -1):
            assert fault_text(rider, at(rider, **{name: direction * angle})).startswith("fallen") == falls


def test_the_lift_warning_begins_where_the_normal_force_ends(rider: Machine) -> None:
    def pitching(rate: float) -> Any:
        return at(rider, theta_dot=rate)

    # upright N = M g cos alpha - mu theta'^2 whatever the slope
    limit = np.sqrt(76 * 9.81 * np.cos(0.15) / 63)
    assert rider.warnings(0.0, at(rider, v=5.0), REST) == []
    assert not warns(rider, pitching(limit * (1 - 1e-9)), REST, "lifted")
    assert warns(rider, pitching(limit * (1 + 1e-9)), REST, "lifted")


@pytest.mark.parametrize("side", [1, -1])
def test_the_tipping_warnings_begin_at_the_board_s_edges(rider: Machine, side: int) -> None:
    N = 76 * 9.81 * np.cos(0.15)
    for moments, name, limit, text in (
        ([0, 0, 0, side * 60.0], "c_b", 60 / N, "sideways"),
        ([0, 0, side * 60.0, 0], "c_t", 60 / N, "edge's length"),
    ):
        x, u = at(rider, v=5.0), np.array(moments)
        # what pushes the body to one side presses the board down on the other
        assert rider.outputs(0.0, x, u)[name] == pytest.approx(-side * limit, rel=1e-12)
        width = "half_width" if name == "c_b" else "half_edge"
        assert not warns(rider.with_parameters({width: limit * (1 + 1e-9)}), x, u, text)
        assert warns(rider.with_parameters({width: limit * (1 - 1e-9)}), x, u, text)


def test_default_inertias_are_those_of_uniform_rods(rider: Machine) -> None:
    p = rider.parameters
    assert p["J0"] == pytest.approx(p["m0"] * p["l0"] ** 2 / 12, rel=1e-15)
    assert p["J1"] == pytest.approx(p["m1"] * p["l1"] ** 2 / 12, rel=1e-15)


def test_states_and_inputs_have_the_names_of_the_page(
    rider: Machine, total_rider: Machine, absolute_rider: Machine
) -> None:
    states = ("x0", "y0", "phi0", "theta", "sigma", "v", "omega", "theta_dot", "sigma_dot")
    for machine, inputs in (
        (rider, ("F_t", "N_s", "M_theta", "M_sigma")),
        (total_rider, ("F_t", "M_phi0", "M_theta", "M_sigma")),
        (absolute_rider, ("Q_x0", "M_phi0", "M_phi1", "M_psi1")),
    ):
        assert machine.description.state_names == states
        assert machine.description.input_names == inputs


def test_the_outline_shows_board_and_body_from_above(rider: Machine) -> None:
    values = {"x0": 3.0, "y0": -1.0, "phi0": 0.5, "theta": 0.2, "sigma": 0.4}
    board, body = outline(rider, values)
    forward, left = np.array([np.cos(0.5), np.sin(0.5)]), np.array([-np.sin(0.5), np.cos(0.5)])
    foot = np.array([3.0, -1.0])
    ahead, aside = (board - foot) @ forward, (board - foot) @ left
    assert (ahead.max(), ahead.min()) == pytest.approx((0.8, -0.8))
    assert (aside.max(), aside.min()) == pytest.approx((0.13, -0.13))
    assert aside[ahead.argmax()] == pytest.approx(0.0, abs=1e-15)
    head = foot + 1.8 * (np.cos(0.4) * np.sin(0.2) * forward + np.sin(0.4) * left)
    assert_allclose(body, [foot, head], rtol=0, atol=1e-15)
