"""Every machine's safe action: a brake in every state, within limits, held from step to step."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.closed_loop.machine_section import check_safe_action
from servonode.errors import StatementError
from servonode.mechanics.machine import Machine
from servonode.plants import PLANTS
from servonode.plants.limits import Limits, limited
from tests.conformance.cases import WITHOUT_INPUTS, Array, MachineCase, machine_cases, random_state, situations

STEP_NS = 1_000_000  # the default plant.step
H = STEP_NS / 1e9
STATES = 300
BRAKED = [case for name in PLANTS if name not in WITHOUT_INPUTS for case in machine_cases(name)]
every_brake = pytest.mark.parametrize(
    "case", BRAKED, ids=lambda case: "-".join([case.name, *dict(case.settings).values()])
)


def any_states(case: MachineCase, count: int, wide: float = 3.0) -> Iterator[Array]:
    """Random states, also such as are beyond the machine's faults; not where the inputs' map is singular."""
    rng = case.rng()
    for _ in range(count):
        x = random_state(case.machine, rng, rng.uniform(0.0, wide))
        if np.isfinite(case.machine.safe_input(0.0, x)).all():
            yield x


def braked(machine: Machine, x: Array, limits: Limits) -> Array:
    """The safe action at a state, through the filter."""
    asked = machine.safe_input(0.0, x).tolist()
    return np.array(limited(asked, [0.0] * len(asked), H, limits, machine.description.input_names)[0])


def without(machine: Machine, most: float) -> Limits:
    """One limit on the value of every input, and none on rate and power."""
    return Limits((most,) * machine.n_inputs, (np.inf,) * machine.n_inputs)


# what inputs work on


def test_machines_with_inputs_declare_a_safe_action_and_only_they() -> None:
    for name in PLANTS:
        for case in machine_cases(name):
            assert (
                case.machine.description.has_safe_action == (case.machine.n_inputs > 0) == (name not in WITHOUT_INPUTS)
            )


@every_brake
def test_inputs_times_their_rates_are_the_power_in_the_work_entry(case: MachineCase) -> None:
    for at in situations(case, 40):
        rates = at.machine.input_rates(at.t, at.x)
        idle = at.machine.derivatives(at.t, at.x, np.zeros(at.machine.n_inputs))[-1]
        power = at.machine.derivatives(at.t, at.x, at.u)[-1] - idle
        assert rates.shape == (at.machine.n_inputs,)
        assert_allclose(at.u @ rates, power, rtol=0, atol=1e-12 * (np.abs(at.u) @ np.abs(rates) + abs(idle)))


# a brake in every state


@every_brake
def test_no_input_of_the_safe_action_ever_drives(case: MachineCase) -> None:
    machine, acting = case.machine, 0
    for x in any_states(case, STATES):
        rates = machine.input_rates(0.0, x)
        for limits in (without(machine, np.inf), without(machine, 0.1), without(machine, 1e-12)):
            u = braked(machine, x, limits)
            assert (u * rates <= 0.0).all()  # of each input by itself, and so whatever a limit takes off
            acting += bool((u != 0.0).all())
    assert acting > 2.5 * STATES


@every_brake
def test_at_rest_it_asks_for_nothing(case: MachineCase) -> None:
    machine = case.machine
    moving = [machine.description.state_names.index(name) for name in machine.description.velocities]
    for x in any_states(case, 20):
        x[moving] = 0.0
        assert (machine.safe_input(0.0, x) == 0.0).all()


@every_brake
@pytest.mark.parametrize("most", [np.inf, 0.5])
def test_held_from_step_to_step_it_takes_energy_out(case: MachineCase, most: float) -> None:
    # without losses, so that a free machine keeps its energy and all work is the brake's; an input may only push
    # with the motion in the one step in which its rate changes sign
    lossless: dict[str, float] = {
        name: 0.0 for name in ("c_w", "c1", "c2", "c_j", "c_r") if name in case.machine.parameters
    }
    machine = case.machine.with_parameters(lossless)
    limits, advance = without(machine, most), machine.advancer("rk4")
    for x in any_states(case, 8, wide=2.0):
        x[-1] = 0.0
        start, rates = machine.energy(0.0, x), machine.input_rates(0.0, x)
        for k in range(1000):
            u, work = braked(machine, x, limits), x[-1]
            assert u @ rates <= 0.0
            assert advance(k, 1, STEP_NS, x, u, machine.c)
            after = machine.input_rates(0.0, x)
            turned = H * np.sum(np.where(rates * after < 0.0, np.abs(u * after), 0.0))
            assert x[-1] - work <= turned + 1e-12 * (1.0 + machine.energies(0.0, x)[0])
            rates = after
        assert x[-1] < 0.0
        assert_allclose(machine.energy(0.0, x) - start, x[-1], rtol=0, atol=1e-6 * (1.0 + abs(start)))


@every_brake
def test_limits_of_rate_and_power_leave_the_brake_its_sign(case: MachineCase) -> None:
    machine = case.machine
    names, n = machine.description.input_names, machine.n_inputs
    limits = Limits((1.0,) * n, (20.0,) * n, power=0.0)
    for x in any_states(case, 8, wide=2.0):
        applied = [0.0] * n
        for k in range(200):
            rates = machine.input_rates(0.0, x)
            applied, _ = limited(machine.safe_input(0.0, x).tolist(), applied, H, limits, names, lambda w=rates: w)  # type: ignore[misc]
            assert np.array(applied) @ rates <= 0.0
            assert machine.advancer("rk4")(k, 1, STEP_NS, x, np.array(applied), machine.c)


# as fast as the theory says: a brake u = -c w held for h turns w into (1 - c h / inertia) w


def slowed(machine: Machine, x: Array, name: str, steps: int) -> float:
    """A state after steps of the safe action, in parts of its start."""
    entry = machine.description.state_names.index(name)
    start = x[entry]
    for k in range(steps):
        assert machine.advancer("rk4")(k, 1, STEP_NS, x, machine.safe_input(k * H, x), machine.c)
    return float(x[entry] / start)


def test_safe_action_slows_the_trailer_by_its_mass_and_inertia() -> None:
    machine = loaded("diff_drive_trailer").with_parameters({"d1": 0.0})
    p = machine.parameters
    mass = p["m1"] + p["m2"] + 2 * p["m_k"] + 2 * p["Iky"] / p["r"] ** 2
    yaw = p["I1"] + 2 * p["m_k"] * p["l"] ** 2 + 2 * p["Ikz"] + 2 * p["l"] ** 2 * p["Iky"] / p["r"] ** 2
    straight, turning = 2 * p["c_b"] / (p["r"] ** 2 * mass), 2 * p["c_b"] * p["l"] ** 2 / (p["r"] ** 2 * yaw)
    x = machine.state({"V": 1.0})
    assert_allclose(slowed(machine, x, "V", 1000), (1 - straight * H) ** 1000, rtol=1e-12)
    assert_allclose(
        slowed(machine, machine.state({"Omega": 1.0}), "Omega", 1000), (1 - turning * H) ** 1000, rtol=1e-12
    )
    assert_allclose(x[-1], machine.energy(0.0, x) - mass / 2, rtol=1e-12)
    assert_allclose([1 / straight, 1 / turning], [0.4556, 1.10286875], rtol=1e-9)  # s


def test_the_sphero_loses_its_spin_against_the_hanging_pendulum() -> None:
    machine = loaded("pendulum_sphero")
    p = machine.parameters
    start = {"omega_2": 1.0, "Omega_2": -p["I"] / p["C3"]}  # without spin of both together
    expected = (1 - p["c_b"] * (1 / p["I"] + 1 / p["C3"]) * H) ** 100
    assert_allclose(slowed(machine, machine.state(start), "omega_2", 100), expected, rtol=1e-11)


@pytest.mark.parametrize("input_set", ["relative", "total"])
def test_safe_action_stops_the_snowboards_yaw(input_set: str) -> None:
    machine = loaded("snowboarder", input_set=input_set).with_parameters({"alpha": 0.0})
    expected = (1 - machine.parameters["k_n"] / machine.parameters["J0"] * H) ** 500
    assert_allclose(slowed(machine, machine.state({"v": 0.0, "omega": 1.0}), "omega", 500), expected, rtol=1e-12)


@pytest.mark.parametrize("input_set", ["relative", "total", "absolute"])
def test_the_snowboarders_joint_is_braked_alike_in_all_directions(input_set: str) -> None:
    # the power of the two joint moments is -k_j |e'|^2, of the body's direction e seen from the blade or the slope
    machine, rng = loaded("snowboarder", input_set=input_set), np.random.default_rng(3)
    for _ in range(50):
        theta, sigma, omega, pitching, leaning, v = rng.uniform(-1.2, 1.2, 6)
        x = machine.state(
            {"theta": theta, "sigma": sigma, "omega": omega, "v": v, "theta_dot": pitching, "sigma_dot": leaning}
        )
        seen = 0.0 if input_set == "relative" else omega
        east = np.cos(sigma) * pitching - np.sin(sigma) * np.cos(theta) * seen
        north = leaning + np.sin(theta) * seen
        found = machine.safe_input(0.0, x)[2:] @ machine.input_rates(0.0, x)[2:]
        assert_allclose(found, -machine.parameters["k_j"] * (east**2 + north**2), rtol=1e-10)


def loaded(name: str, **settings: str) -> Machine:
    """A machine with default parameters and some settings."""
    return next(each for each in machine_cases(name) if settings.items() <= dict(each.settings).items()).machine


# what would drive is refused before the start


class Turned(Machine):
    """A machine some of whose safe inputs have the wrong sign."""

    def __init__(self, machine: Machine, signs: Array) -> None:
        super().__init__(machine.description, machine.kernel, machine.parameters)
        self.signs = signs

    def safe_input(self, t: float, x: Array) -> Array:
        return self.signs * super().safe_input(t, x)


def tried(case: MachineCase, machine: Machine, step_ns: int = STEP_NS, most: float = np.inf) -> None:
    """Put the safe action through the check before a start; the absolute angles start away from the upright."""
    start = machine.state({"theta": 0.2, "sigma": 0.1} if case.name == "snowboarder" else {})
    check_safe_action(machine, start, np.full(machine.n_inputs, most), 1, step_ns, "rk4")


@pytest.mark.parametrize("step_ns", [STEP_NS, 10 * STEP_NS])
@every_brake
def test_the_safe_actions_pass_the_check_before_a_start(case: MachineCase, step_ns: int) -> None:
    for most in (np.inf, 0.1, 0.0):
        tried(case, case.machine, step_ns, most)


@every_brake
def test_a_wrong_sign_of_one_input_or_of_all_is_refused_before_the_start(case: MachineCase) -> None:
    n = case.machine.n_inputs
    for signs in (-np.ones(n), *(1.0 - 2.0 * np.eye(n))):
        with pytest.raises(StatementError, match="adds energy"):
            tried(case, Turned(case.machine, signs))
    with pytest.raises(StatementError, match="adds energy"):  # under a finite limit too
        tried(case, Turned(case.machine, -np.ones(n)), most=0.1)


@every_brake
def test_a_brake_too_strong_for_the_step_is_refused(case: MachineCase) -> None:
    with pytest.raises(StatementError, match="shorten the step or reduce the brake"):
        tried(case, Turned(case.machine, np.full(case.machine.n_inputs, 1e4)))
