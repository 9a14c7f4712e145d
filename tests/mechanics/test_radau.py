"""The implicit integrator: order, stiff machines against scipy, energies, what it does where it cannot go on."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from sympy import Max

import servonode
from servonode.closed_loop.launch_file import read_launch
from servonode.mechanics import Model, coordinate, parameter, time
from servonode.mechanics.integrate import METHODS
from servonode.mechanics.machine import Machine
from servonode.mechanics.stiffness import slopes, stiffness

HERE = Path(__file__)
NONE = np.zeros(0)


def oscillator() -> Model:
    """Van der Pol's oscillator and a wall."""
    x = coordinate("x", "place", "m", start=2.0)
    mu, k = parameter("mu", "damping", "N s/m", default=1000.0), parameter("k", "wall", "N/m", default=0.0)
    a = parameter("a", "growth of a force", "N/s", default=0.001)
    forces = ((mu * (1 - x**2) * x.rate, x.rate), (-k * Max(0, x - 3), x.rate), (a * time, x.rate))
    return Model(
        "oscillator", "", x.rate**2 / 2, parameters=(mu, k, a), coordinates=(x,), potential=x**2 / 2, forces=forces
    )


@pytest.fixture(scope="module")
def stiff(small: ModuleType) -> Machine:
    found: Machine = small.machine(oscillator, {}, HERE)
    return found


def moved(machine: Machine, x: Any, n: int, T: float, integrator: str = "radau") -> Any:
    x = np.array(x)
    machine.advancer(integrator)(0, n, round(T * 1e9 / n), x, NONE, machine.c)
    return x


def test_a_stiff_oscillator_moves_as_scipy_says(stiff: Machine) -> None:
    """Step times eigenvalue is 30 to 60 here; explicit steps end at infinity."""

    def by_hand(t: float, z: Any) -> Any:
        return [z[1], 1000.0 * (1 - z[0] ** 2) * z[1] - z[0] + t / 1000]

    wanted = solve_ivp(by_hand, (0.0, 20.0), [2.0, 0.0], method="Radau", rtol=1e-11, atol=1e-13).y[:, -1]
    x = moved(stiff, [2.0, 0.0, 0.0], 2000, 20.0)
    assert_allclose(x[:2], wanted, rtol=1e-8)
    assert not np.isfinite(moved(stiff, [2.0, 0.0, 0.0], 2000, 20.0, "rk4")).all()


def test_its_steps_have_order_three_and_so_has_the_work(stiff: Machine) -> None:
    mild, x0 = stiff.with_parameters({"mu": 1.0}), np.array([2.0, 0.0, 0.0])
    end = solve_ivp(lambda t, x: mild.derivatives(t, x, NONE), (0, 2), x0, method="DOP853", rtol=1e-13, atol=1e-13).y[
        :, -1
    ]
    steps = np.array([50, 100, 200])
    errors = np.array([np.abs(moved(mild, x0, n, 2.0) - end) for n in steps])
    orders = [-np.polyfit(np.log(steps), np.log(column), 1)[0] for column in errors.T]
    assert_allclose(orders, METHODS["radau"].order, atol=0.1)


def test_a_linear_motion_is_multiplied_by_its_stability_function(stiff: Machine) -> None:
    """R(z) = (1 + z/3) / (1 - 2z/3 + z^2/6), which vanishes at infinity: L-stable."""
    free = stiff.with_parameters({"mu": 0.0, "a": 0.0})
    z = 0.5j
    R = (1 + z / 3) / (1 - 2 * z / 3 + z * z / 6)
    x = np.array([1.0, 0.0, 0.0])
    free.stepper("radau")(0.0, x, NONE, free.c, 0.5)
    assert_allclose(x[:2], [R.real, -R.imag], rtol=1e-12)  # x + i x_dot turns backwards


def test_where_it_cannot_go_on_the_state_is_no_number(stiff: Machine) -> None:
    assert np.isnan(moved(stiff.with_parameters({"mu": -1e12}), [1e3, 1e6, 0.0], 1, 10.0)).any()


def test_a_kink_within_a_step_is_met(stiff: Machine) -> None:
    wall = stiff.with_parameters({"mu": 0.0, "k": 1e4})
    x = moved(wall, [2.9, 1.0, 0.0], 4000, 2.0)
    assert wall.energy(2.0, x) - wall.energy(0.0, np.array([2.9, 1.0, 0.0])) == pytest.approx(x[2], abs=1e-5)


def test_slopes_are_those_by_hand(stiff: Machine) -> None:
    A = slopes(stiff, 0.0, np.array([2.0, 0.3, 0.0]), NONE)
    assert_allclose(A, [[0, 1], [-2 * 1000 * 2.0 * 0.3 - 1, -3000]], rtol=1e-5, atol=1e-6)


def test_a_step_that_is_too_long_is_named_with_its_limit(stiff: Machine) -> None:
    x = np.array([2.0, 0.0, 0.0])
    found = stiffness(stiff, "rk4", 0.01, 0.0, x, NONE, [5 * 10**9])
    assert found is not None
    assert (found.size, found.limit) == (pytest.approx(30.0, rel=1e-4), pytest.approx(2.785293563, rel=1e-6))
    text = "h |lambda| = 30, rk4 is stable up to 2.79: plant.step = 0.0008, or plant.integrator"
    assert str(found) == f'{text} = "radau" for stiff machines'
    assert stiffness(stiff, "rk4", 0.0008, 0.0, x, NONE, [5 * 10**9]) is None
    assert stiffness(stiff, "radau", 0.01, 0.0, x, NONE, [5 * 10**9]) is None
    euler = stiffness(stiff, "euler", 0.01, 0.0, x, NONE, [5 * 10**9])
    assert euler is not None
    assert euler.limit == pytest.approx(2.0)


LIMITS = {"euler": 2.0, "heun": 2.0, "rk4": 2.785293563}  # of h |lambda| on the negative real axis


@pytest.mark.parametrize("integrator", LIMITS)
@pytest.mark.parametrize("period", [0.01, 0.003, 0.0125])
def test_the_step_that_is_named_is_stable_and_divides_period_and_duration(
    stiff: Machine, integrator: str, period: float, tmp_path: Path
) -> None:
    """At x = 2 the slopes have about the eigenvalues -3 mu and, much smaller, -1/(3 mu)."""
    file = tmp_path / "stiff.toml"
    stated = f'[run]\nduration = {400 * period}\n[plant]\nmachine = "m"\nintegrator = "{integrator}"\n'
    file.write_text(f'{stated}[controller]\nprogram = "p"\nperiod = {period}\n')
    x, limit = np.array([2.0, 0.0, 0.0]), LIMITS[integrator]
    for size in np.geomspace(1.01 * limit / period, 1e5, 40):
        machine, times = stiff.with_parameters({"mu": size / 3}), [round(period * 1e9), round(400 * period * 1e9)]
        found = stiffness(machine, integrator, period, 0.0, x, NONE, times)
        assert found is not None
        assert found.shorter is not None
        assert found.shorter * size < limit
        assert stiffness(machine, integrator, found.shorter, 0.0, x, NONE, times) is None
        assert f"plant.step = {found.shorter:.12g}," in str(found)
        read_launch(file, [f"plant.step={found.shorter:.12g}"])
        shares = [n for n in range(1, round(period / found.shorter)) if times[0] % n == 0]
        assert all(0.9 * limit < period / n * size * (1 + 1e-6) for n in shares)  # none that is longer would do


def test_no_step_is_named_where_none_is_long_enough(stiff: Machine) -> None:
    x = np.array([2.0, 0.0, 0.0])
    found = stiffness(stiff.with_parameters({"mu": 1e7}), "rk4", 0.01, 0.0, x, NONE, [10**7])
    assert str(found) == 'h |lambda| = 3e+05, rk4 is stable up to 2.79: plant.integrator = "radau" for stiff machines'


@pytest.mark.slow
def test_a_run_that_diverges_says_what_step_it_needs() -> None:
    plant, run = {"machine": oscillator, "step": 0.01}, {"duration": 5.0}
    found = servonode.simulate({"run": run, "plant": {**plant, "integrator": "rk4"}})
    text = "the state is no longer finite: the step is too long for this machine, initially h |lambda| = 30"
    assert text in str(found.fault)
    assert servonode.simulate({"run": run, "plant": {**plant, "integrator": "radau"}}).fault is None
