"""Ball on a turntable: against its formulas by hand, printed states and attitudes, errors, orders, constants."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.mechanics.changes import Changes
from servonode.mechanics.integrate import INTEGRATORS
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, packaged_machine
from servonode.plants.ball.start import attitude, columns
from tests.helpers import ball_sheet
from tests.helpers.ball_sheet import S1, S2, S3, S4, Ball
from tests.helpers.outlines import outline

Flow = Callable[..., Any]
Print = Callable[[Any, str], None]
NAME = "ball_on_turntable"
NO_INPUT = np.zeros(0)
PLACE, OMEGA, ATTITUDE, WORK = slice(0, 4), slice(4, 7), slice(7, 11), 11
K_ALL = {"k1": -4.0, "k2": 1.5, "k3": -0.7, "k4": -6.0}
CASES = {"S1": S1, "S2": S2, "S3": S3, "S4": S4}


@pytest.fixture(scope="session")
def ball() -> Machine:
    return packaged_machine(NAME).load({})


@pytest.fixture(scope="session")
def angles() -> Machine:
    return packaged_machine(NAME, {"scheme": "angles"}).load({})


def machine_of(machine: Machine, case: Ball, K: Any = ball_sheet.K_DIAGONAL) -> Machine:
    return machine.with_parameters(ball_sheet.parameters(case, K))


def start(case: Ball) -> Any:
    """The kernel's state array of a start on the constraint."""
    return np.array([*case.r0, *case.v0, *case.omega0, *case.q0, 0.0])


def random_ball(machine: Machine, rng: np.random.Generator) -> Machine:
    values: dict[str, float] = dict(zip(("k1", "k2", "k3", "k4"), rng.uniform(-9, 3, 4), strict=True))
    values |= dict(zip(("m", "a", "J"), rng.uniform(0.3, 3, 3), strict=True))
    values |= dict(zip(("Omega", "g_x", "g_y"), rng.uniform(-2, 2, 3), strict=True))
    return machine.with_parameters(values)


def random_state(rng: np.random.Generator) -> Any:
    """A state that slips, its quaternion of norm 1."""
    x = rng.uniform(-3, 3, 12)
    x[ATTITUDE] /= np.linalg.norm(x[ATTITUDE])
    return x


def moved(machine: Machine, x: Any, integrator: str, h: float, duration: float) -> Any:
    """The state array after whole steps."""
    x, step_ns = x.copy(), round(h * 1e9)
    assert machine.advancer(integrator)(0, round(duration / h), step_ns, x, NO_INPUT, machine.c)
    return x


# equations


def test_rates_friction_force_slip_and_power_are_the_formulas_by_hand(ball: Machine, rng: np.random.Generator) -> None:
    for _ in range(200):
        machine, x = random_ball(ball, rng), random_state(rng)
        p, rates = machine.parameters, machine.derivatives(0.7, x, NO_INPUT)
        expected, outputs = ball_sheet.rates(p, x), machine.outputs(0.0, x, NO_INPUT)
        assert_allclose(rates[:WORK], expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))
        F, f = ball_sheet.friction(p, x)
        assert_allclose([outputs["F_x"], outputs["F_y"]], F, rtol=1e-12, atol=1e-12)
        assert outputs["friction"] == pytest.approx(np.hypot(*F), rel=1e-12)
        assert_allclose(machine.constraint_residual(0.0, x), f, rtol=0, atol=1e-14 * (1 + np.abs(f).max()))
        contact = [x[2] - p["a"] * x[5], x[3] + p["a"] * x[4]]
        assert rates[WORK] == pytest.approx(np.dot(F, contact), rel=1e-11, abs=1e-11)


def test_a_varying_rate_enters_by_its_derivative(rng: np.random.Generator) -> None:
    changes = Changes(varying={"Omega": "0.3 + 0.2*sin(t)"})
    definition = packaged_machine(NAME).definition
    machine = MachineSource(definition, {}, changes).load(K_ALL)
    turned = MachineSource(definition, {"scheme": "angles"}, changes).load(K_ALL)
    for t in rng.uniform(0, 9, 20):
        p = machine.parameters | {"Omega": 0.3 + 0.2 * np.sin(t)}
        x, z = random_state(rng), np.array([*rng.uniform(-1.2, 1.2, 10), 0.0])
        expected = ball_sheet.rates(p, x, 0.2 * np.cos(t))
        assert_allclose(
            machine.derivatives(t, x, NO_INPUT)[:WORK], expected, rtol=0, atol=1e-12 * np.abs(expected).max()
        )
        by_hand = ball_sheet.angle_rates(p, z[:10], 0.2 * np.cos(t))[0]
        assert_allclose(turned.derivatives(t, z, NO_INPUT)[:10], by_hand, rtol=0, atol=1e-12 * np.abs(by_hand).max())


@pytest.mark.parametrize(("J", "share"), [(0.4, 2 / 7), (2 / 3, 2 / 5)])  # a solid ball, a shell
def test_a_free_circle_turns_at_its_share_of_the_plate_s_rate(
    ball: Machine, flow: Flow, J: float, share: float
) -> None:
    case = Ball(J=J)
    assert case.s == pytest.approx(share, rel=1e-15)
    period = 2 * np.pi / case.turning
    x = flow(machine_of(ball, case), start(case), period, NO_INPUT)[:, -1]
    assert_allclose(x[PLACE], start(case)[PLACE], rtol=0, atol=1e-11)


# printed attitudes; printed states are asserted of the launch files, in tests/analysis/test_ball_runs.py


PRINTED_ATTITUDES = {
    ("S1", 3): "0.0205888244, 0.0089931780, 0.9975973580, 0.0655342226",
    ("S1", 8): "-0.3105991423, -0.1354103509, -0.9404982946, 0.0255962421",
    ("S2", 10): "-0.6064559223, -0.1681777676, 0.5317253090, -0.5667412537",
    ("S2", 50): "-0.0155179676, 0.6122180775, 0.3168727696, -0.7242512452",
    ("S3", 10): "0.0395545299, -0.0752071834, -0.5252202970, -0.8467130319",
}


@pytest.mark.parametrize(("name", "t"), sorted(PRINTED_ATTITUDES))
def test_the_machine_and_an_integration_of_its_own_pass_the_printed_attitudes(
    ball: Machine, agree_in_print: Print, name: str, t: int
) -> None:
    case = CASES[name]
    agree_in_print(case.attitude([t])[:, 0], PRINTED_ATTITUDES[name, t])
    x = moved(machine_of(ball, case), start(case), "rk4", 0.001, t)
    agree_in_print(x[ATTITUDE], PRINTED_ATTITUDES[name, t])


def test_about_the_plate_s_axis_the_attitude_has_a_closed_form(ball: Machine, flow: Flow) -> None:
    times = [1.0, 4.0, 10.0, 40.0]
    x = flow(machine_of(ball, S3), start(S3), times, NO_INPUT)
    for t, at in zip(times, x.T, strict=True):
        assert ball_sheet.between(at[ATTITUDE] / np.linalg.norm(at[ATTITUDE]), S3.centred_attitude(t)) < 1e-11


def test_the_kinetic_energy_is_not_constant_the_plate_does_work(ball: Machine, agree_in_print: Print) -> None:
    machine, x = machine_of(ball, S2), start(S2)
    end = moved(machine, x, "rk4", 0.01, 10.0)
    agree_in_print([machine.energy(0.0, x)], "0.55")
    agree_in_print([machine.energy(10.0, end)], "5.4495")
    assert end[WORK] == pytest.approx(machine.energy(10.0, end) - machine.energy(0.0, x), abs=1e-9)


def test_the_circle_is_where_its_centre_and_radius_say(ball: Machine) -> None:
    outputs = machine_of(ball, S2).outputs(0.0, start(S2), NO_INPUT)
    assert [outputs["c_x"], outputs["c_y"]] == pytest.approx([-2.5, 0.0], abs=1e-15)
    assert np.hypot(*(S2.place(7.0)[:2] - S2.centre)) == pytest.approx(3.5, rel=1e-14)
    assert outputs["friction"] == pytest.approx(2 / 7 * outputs["speed"], rel=1e-14)  # m Omega_* |v|
    still = machine_of(ball, Ball(Omega=0.0, omega0=(0.2, 0.1, 0.0)))
    outputs = still.outputs(0.0, np.array([1, 2, 0.1, -0.2, 0.2, 0.1, 0, 1, 0, 0, 0, 0]), NO_INPUT)
    assert [outputs["c_x"], outputs["c_y"]] == [1.0, 2.0]  # a plate at rest: no centre, and no division by zero


def test_papers_start_passes_close_to_the_singularity_of_its_angles(ball: Machine, agree_in_print: Print) -> None:
    machine, x, h = machine_of(ball, S1), start(S1), 1e-4
    step = machine.stepper("rk4")
    D, beta = [], []
    for i in range(32000):
        D.append(np.hypot(x[7], x[8]))
        beta.append(np.arctan2(x[9], D[-1]))
        step(i * h, x, NO_INPUT, machine.c, h)
    nearest = int(np.argmin(D))
    agree_in_print([D[nearest]], "0.01037")
    agree_in_print([nearest * h], "3.038")
    entered = int(np.argmax(np.array(beta) > np.pi / 2 - 0.05))
    agree_in_print([entered * h], "2.945")


# errors and orders


def errors(machine: Machine, case: Ball, integrator: str, h: float, t: float) -> tuple[float, float, float]:
    """Of the end: distance of the centre, angle of the attitude; and the largest slip at twenty instants."""
    x, slip = start(case), 0.0
    for i in range(20):
        steps = round(t / h) // 20
        assert machine.advancer(integrator)(i * steps, steps, round(h * 1e9), x, NO_INPUT, machine.c)
        slip = max(slip, float(np.hypot(*machine.constraint_residual(0.0, x))))
    place = float(np.hypot(*(x[:2] - case.place(t)[:2])))
    return place, ball_sheet.between(x[ATTITUDE], case.attitude([t])[:, 0]), slip


# case, integrator, step, duration, printed errors of position and attitude (None: rounding), bounds of rounding
TABLE = [
    ("S1", "euler", 1e-3, 8, "1.2e-4", "1.5e-4"),
    ("S1", "rk2", 1e-3, 8, "1.1e-9", "4.4e-7"),
    ("S1", "rk4", 1e-1, 8, "5e-12", "7e-7"),
    ("S1", "rk4", 1e-2, 8, None, "7e-11"),
    ("S2", "euler", 1e-3, 50, "7.2e-3", "4.2e-2"),
    ("S2", "rk2", 1e-2, 50, "6.8e-5", "4.2e-3"),
    ("S2", "rk2", 1e-3, 50, "6.8e-7", "4.2e-5"),
    ("S2", "rk4", 1e-1, 50, "2.8e-7", "1.2e-3"),
    ("S2", "rk4", 1e-2, 50, "2.8e-11", "1.2e-7"),
]


@pytest.mark.parametrize(("name", "integrator", "h", "t", "place", "attitude"), TABLE)
def test_errors_are_the_printed_ones(
    ball: Machine, name: str, integrator: str, h: float, t: float, place: str | None, attitude: str
) -> None:
    case = CASES[name]
    at, turned, slip = errors(machine_of(ball, case), case, integrator, h, t)
    assert at < 2e-14 if place is None else ball_sheet.prints(at, place)
    assert ball_sheet.prints(turned, attitude)
    assert slip < (1e-13 if name == "S1" else 3e-13)


@pytest.mark.parametrize("integrator", sorted(INTEGRATORS))
@pytest.mark.parametrize("h", [0.2, 0.01])
def test_linear_constants_are_kept_to_rounding_at_any_step(ball: Machine, integrator: str, h: float) -> None:
    machine, x = machine_of(ball, S2), start(S2)
    end = moved(machine, x, integrator, h, 20.0)
    now, then = (machine.outputs(0.0, each, NO_INPUT) for each in (end, x))
    for name in ("L_x", "L_y", "c_x", "c_y"):
        assert now[name] == pytest.approx(then[name], abs=3e-12)
    assert end[6] == x[6]  # the spin about the normal
    assert float(np.hypot(*machine.constraint_residual(0.0, end))) < 1e-12


def test_quadratic_constants_are_kept_to_the_order_of_the_method(ball: Machine) -> None:
    machine, x = machine_of(ball, S2), start(S2)
    end = moved(machine, x, "rk4", 0.1, 50.0)
    now, then = (machine.outputs(0.0, each, NO_INPUT) for each in (end, x))
    assert ball_sheet.prints(abs(now["speed"] ** 2 - then["speed"] ** 2), "4e-9")
    assert ball_sheet.prints(abs(now["E_moving"] - then["E_moving"]), "7e-9")
    for h in (0.2, 0.1):
        changes = [abs(moved(machine, x, "rk4", each, 50.0)[2:4] @ moved(machine, x, "rk4", each, 50.0)[2:4] - 1.0)
                   for each in (h, h / 2)]  # fmt: skip
        assert np.log2(changes[0] / changes[1]) == pytest.approx(5.0, abs=0.1)  # |R(i w h)|^2 = 1 + O(h^6) a step


# the plate tilted, the plate's rate varying


def test_on_a_tilted_plate_the_circle_drifts_across_the_slope(ball: Machine, flow: Flow) -> None:
    assert_allclose(S4.drift, [0.0, -1.25], atol=1e-15)
    machine, times = machine_of(ball, S4), np.array([2.0, 7.0, 10.0, 22.0])
    x = flow(machine, start(S4), times, NO_INPUT)
    outputs = [machine.outputs(0.0, each, NO_INPUT) for each in x.T]
    first = machine.outputs(0.0, start(S4), NO_INPUT)
    assert_allclose([each["c_y"] for each in outputs], first["c_y"] - 1.25 * times, rtol=0, atol=1e-10)
    assert_allclose([each["c_x"] for each in outputs], first["c_x"], rtol=0, atol=1e-10)
    assert_allclose(x[PLACE], S4.place(times), rtol=0, atol=1e-10)


def test_a_ball_of_any_kind_drifts_by_its_own_factor(ball: Machine, flow: Flow) -> None:
    case = Ball(m=1.7, a=0.4, J=0.13, Omega=-0.8, G=(0.3, -0.2))
    x = flow(machine_of(ball, case), start(case), 6.0, NO_INPUT)[:, -1]
    assert_allclose(x[PLACE], case.place(6.0), rtol=0, atol=1e-10)
    assert_allclose(Ball(G=(-0.5, 0.0)).drift, 2.5 * np.array([0.0, -0.5]), atol=1e-15)  # 5/2 for a solid ball


def test_while_the_plate_s_rate_varies_angular_momentum_about_the_contact_stays(flow: Flow) -> None:
    changes = Changes(varying={"Omega": "0.3 + 0.5*sin(0.7*t)"})
    machine = MachineSource(packaged_machine(NAME).definition, {}, changes).load({})
    case = Ball(Omega=0.3, omega0=(0.2, -0.4, 0.1))
    times = np.linspace(1.0, 12.0, 6)
    x = flow(machine, start(case), times, NO_INPUT)
    rate = 0.3 + 0.5 * np.sin(0.7 * times)
    left = np.array([x[2] + case.s * rate * x[1], x[3] - case.s * rate * x[0]])  # v - s Omega k x r
    at_start = [case.v0[0] + case.s * 0.3 * 0.0, case.v0[1] - case.s * 0.3 * 1.0]
    assert_allclose(left.T, [at_start] * len(times), rtol=0, atol=1e-10)
    outputs = [machine.outputs(t, each, NO_INPUT) for t, each in zip(times, x.T, strict=True)]
    first = machine.outputs(0.0, start(case), NO_INPUT)
    for name in ("L_x", "L_y"):
        assert_allclose([each[name] for each in outputs], first[name], rtol=0, atol=1e-11)
    assert max(abs(each["E_moving"] - first["E_moving"]) for each in outputs) > 0.1
    for t, each in zip(times, x.T, strict=True):
        assert_allclose(machine.constraint_residual(t, each), 0.0, atol=1e-11)


def test_the_plate_s_angle_is_exact_for_an_evenly_changing_rate() -> None:
    definition = packaged_machine(NAME).definition
    even = MachineSource(definition, {}, Changes(varying={"Omega": "0.2 + 0.04*t"})).load({})
    assert even.outputs(10.0, start(S2), NO_INPUT)["turn"] == pytest.approx(0.2 * 10 + 0.02 * 100, rel=1e-14)


# off the constraint


def test_the_slip_decays_as_the_matrix_says(ball: Machine, flow: Flow) -> None:
    from scipy.linalg import expm

    machine = ball.with_parameters(K_ALL)
    x = start(S2) + np.array([0, 0, 0.3, -0.2, 0.1, 0, 0, 0, 0, 0, 0, 0])
    f = machine.constraint_residual(0.0, x)
    times = [0.1, 0.5, 1.0]
    K = np.array([[K_ALL["k1"], K_ALL["k2"]], [K_ALL["k3"], K_ALL["k4"]]])
    for t, at in zip(times, flow(machine, x, times, NO_INPUT).T, strict=True):
        assert_allclose(machine.constraint_residual(t, at), expm(K * t) @ f, rtol=0, atol=1e-12)


def test_k_ends_the_slip_by_moving_the_circle_for_good(ball: Machine, flow: Flow) -> None:
    """The slip's decay pushes the centre: v' = Omega_* k x v + s K f."""
    machine = machine_of(ball, S2)
    x = start(S2) + np.array([0, 0, 0.6, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    end = flow(machine, x, 10.0, NO_INPUT)[:, -1]
    rest = machine.outputs(10.0, end, NO_INPUT)
    f, turning, kappa = 0.6, S2.turning, 5.0
    centre = complex(*x[:2]) + 1j * complex(*x[2:4]) / turning
    # c = r + i v / Omega_*: c' = i s K f / Omega_*, integrated over the decay of f
    moved_centre = centre + 1j * S2.s * (-kappa) * f / kappa / turning
    assert [rest["c_x"], rest["c_y"]] == pytest.approx([moved_centre.real, moved_centre.imag], abs=1e-9)
    assert abs(moved_centre - centre) == pytest.approx(0.6, abs=1e-12)  # s f / Omega_*


# the paper's attitude in body axes


def test_taken_in_body_axes_the_same_angular_velocity_gives_another_attitude() -> None:
    from scipy.integrate import solve_ivp

    def by(rate: Callable[[Any, Any], Any]) -> Any:
        solved = solve_ivp(lambda t, q: rate(S2.omega(t), q), (0.0, 10.0), S2.q0, **ball_sheet.SOLVER)
        return solved.y[:, -1] / np.linalg.norm(solved.y[:, -1])

    space, body = by(ball_sheet.quaternion_rate), by(ball_sheet.body_frame_rate)
    assert ball_sheet.between(space, S2.attitude([10.0])[:, 0]) < 1e-11
    assert ball_sheet.between(body, space) > 0.3


def test_papers_expressions_are_those_of_body_axes(rng: np.random.Generator) -> None:
    for _ in range(20):
        q = rng.normal(size=4)
        q /= np.linalg.norm(q)
        omega = rng.normal(size=3)
        r = ball_sheet.body_frame_rate(omega, q)
        printed = 2 * q[0] * r[1] - 2 * q[1] * r[0] + 2 * q[3] * r[2] - 2 * q[2] * r[3]
        assert printed == pytest.approx(omega[0], abs=1e-14)
        r = ball_sheet.quaternion_rate(omega, q)
        turned = 2 * q[0] * r[1] - 2 * q[1] * r[0] - 2 * q[3] * r[2] + 2 * q[2] * r[3]
        assert turned == pytest.approx(omega[0], abs=1e-14)


# three angles


def test_in_angles_rates_are_the_formulas_by_hand(angles: Machine, rng: np.random.Generator) -> None:
    for _ in range(200):
        machine = random_ball(angles, rng)
        z = np.array([*rng.uniform(-2, 2, 2), *rng.uniform(-1.3, 1.3, 2), *rng.uniform(-2, 2, 6), 0.0])
        expected = ball_sheet.angle_rates(machine.parameters, z[:10])[0]
        found = machine.derivatives(0.0, z, NO_INPUT)[:10]
        assert_allclose(found, expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))


def test_in_angles_the_friction_is_finite_at_the_singularity(angles: Machine) -> None:
    z = np.array([1.0, 0.5, 0.3, np.pi / 2, 0.4, 0.1, 0.2, 0.3, 0.4, 0.5, 0.0])
    F = ball_sheet.friction(
        angles.parameters, np.array([1.0, 0.5, 0.1, 0.2, *ball_sheet.angle_rates(angles.parameters, z[:10])[2]])
    )[0]
    outputs = angles.outputs(0.0, z, NO_INPUT)
    assert [outputs["F_x"], outputs["F_y"]] == pytest.approx(F.tolist(), rel=1e-12)
    assert outputs["D"] < 1e-15


def test_in_angles_and_in_quaternions_it_is_the_same_machine(ball: Machine, angles: Machine, flow: Flow) -> None:
    z = np.array([*ball_sheet.angle_start(S2), 0.0])
    times = [0.5, 1.0, 2.0]
    turned, exact = (
        flow(machine_of(machine, S2), x, times, NO_INPUT) for machine, x in ((angles, z), (ball, start(S2)))
    )
    for now, then in zip(turned.T, exact.T, strict=True):
        outputs = machine_of(angles, S2).outputs(0.0, now, NO_INPUT)
        assert_allclose(now[:2], then[:2], rtol=0, atol=1e-10)
        assert_allclose([outputs[f"omega_{i}"] for i in range(3)], then[OMEGA], rtol=0, atol=1e-10)
        assert ball_sheet.between(np.array([outputs[f"q_{i}"] for i in range(4)]), then[ATTITUDE]) < 1e-9
        assert now[10] == pytest.approx(then[WORK], abs=1e-10)
        energies = [machine_of(machine, S2).energy(0.0, x) for machine, x in ((angles, now), (ball, then))]
        assert energies[0] == pytest.approx(energies[1], abs=1e-10)


def test_the_correct_crossing_is_a_relabelling(rng: np.random.Generator) -> None:
    for alpha, beta, gamma in rng.uniform(-3, 3, (20, 3)):
        q, other = attitude(np, alpha, beta, gamma), attitude(np, alpha, np.pi - beta, gamma + np.pi)
        assert_allclose(other, q, rtol=0, atol=1e-15)


def test_columns_are_the_angular_velocities_of_unit_rates(rng: np.random.Generator) -> None:
    h = 1e-6
    for at in rng.uniform(-1.4, 1.4, (20, 3)):
        found = columns(np, *at)
        l, m, n = ball_sheet.columns(*at)  # noqa: E741
        assert_allclose(found, [n, m, l], rtol=0, atol=1e-15)
        gram = np.array(found) @ np.array(found).T
        ca2, cb2 = np.cos(at[0]) ** 2, np.cos(at[1]) ** 2
        assert_allclose(gram, np.diag([4.0, 4 * ca2, 4 * ca2 * cb2]), rtol=0, atol=1e-14)
        q = np.array(attitude(np, *at))
        for unit, omega in zip(np.eye(3), found, strict=True):
            rate = (np.array(attitude(np, *(at + h * unit))) - np.array(attitude(np, *(at - h * unit)))) / (2 * h)
            assert_allclose(rate, ball_sheet.quaternion_rate(omega, q), rtol=0, atol=1e-9)


def test_euler_s_angles_fail_at_both_ends_and_for_any_body(rng: np.random.Generator) -> None:
    """The determinant of their mass matrix is that of the inertia times sin(theta)^2."""
    for psi, theta in rng.uniform(-3, 3, (20, 2)):
        node = np.array([np.cos(psi), np.sin(psi), 0.0])
        axis = np.array([np.sin(psi) * np.sin(theta), -np.cos(psi) * np.sin(theta), np.cos(theta)])
        turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        inertia = turned @ np.diag(rng.uniform(0.5, 2, 3)) @ turned.T
        for I in (inertia, 0.4 * np.eye(3)):  # noqa: E741
            W = np.column_stack([[0.0, 0.0, 1.0], node, axis])  # angular velocities of unit rates
            found = np.linalg.det(W.T @ I @ W)
            assert found == pytest.approx(np.linalg.det(I) * np.sin(theta) ** 2, rel=1e-9, abs=1e-12)


# names, bounds, warnings, picture


def test_the_state_has_its_eleven_numbers_in_order(ball: Machine) -> None:
    entries = ("omega_0", "omega_1", "omega_2", "q_0", "q_1", "q_2", "q_3")
    assert ball.description.state_names == ("x", "y", "x_dot", "y_dot", *entries)
    assert ball.description.input_names == ()
    assert_allclose(ball.state({}), [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], atol=0)


def test_a_ball_that_would_slip_and_more_inertia_than_a_shell_s_are_warned_of(ball: Machine) -> None:
    limit = ball.outputs(0.0, start(S2), NO_INPUT)["friction"] / 9.81
    for changes, text in (
        ({"mu_f": limit * (1 + 1e-9)}, None),
        ({"mu_f": limit * (1 - 1e-9)}, "would slip"),
        ({"J": 2 / 3}, None),
        ({"J": 0.67}, "not a real ball"),
    ):
        warned = ball.with_parameters(changes).warnings(0.0, start(S2), NO_INPUT)
        assert [text in each for each in warned] == [True] if text else warned == []


def test_a_jump_of_less_than_two_half_windows_is_warned_of() -> None:
    machine = packaged_machine(NAME, {"scheme": "angles", "bypass": "split"}).load({"delta": 0.051})
    z = np.array([*ball_sheet.angle_start(S1), 0.0])
    assert any("delta > 2 epsilon" in each for each in machine.warnings(0.0, z, NO_INPUT))
    assert machine.with_parameters({"delta": 0.87}).warnings(0.0, z, NO_INPUT) == []


def test_the_outline_shows_the_ball_and_what_is_painted_on_it(ball: Machine) -> None:
    q = np.array([0.4, 0.5, -0.2, 0.3])
    values = {"x": 3.0, "y": -1.0}
    values |= {f"q_{i}": float(each) for i, each in enumerate(q / np.linalg.norm(q))}
    shell, *painted = outline(ball, values)
    centre = np.array([3.0, -1.0])
    assert_allclose(np.linalg.norm(shell - centre, axis=1), 1.0, rtol=1e-14)
    assert painted
    assert all(np.linalg.norm(each - centre, axis=1).max() <= 1 + 1e-12 for each in painted)
    assert len(outline(ball, values, 1)) == len(painted) + 1


def test_what_is_painted_on_the_ball_rolls_with_it(ball: Machine, flow: Flow) -> None:
    """On a plate at rest: after half a turn the pole is where it was, one circumference on, and below."""
    case = Ball(Omega=0.0, r0=(0.0, 0.0), omega0=(0.0, 1.0, 0.0))
    machine = machine_of(ball, case)
    end = flow(machine, start(case), np.pi, NO_INPUT)[:, -1]
    assert end[0] == pytest.approx(np.pi, abs=1e-11)
    values = dict(zip(machine.description.state_names, end.tolist(), strict=False))
    dots = [each for each in outline(machine, values) if len(each) == 1]
    assert dots == []  # the pole is below
    rising = flow(machine, start(case), 0.5, NO_INPUT)[:, -1]
    values = dict(zip(machine.description.state_names, rising.tolist(), strict=False))
    dot = next(each for each in outline(machine, values) if len(each) == 1)
    assert_allclose(dot[0], [0.5 + np.sin(0.5), 0.0], rtol=0, atol=1e-10)  # a cycloid
