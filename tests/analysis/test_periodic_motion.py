"""Floquet's multipliers against equations written by hand, periods of goals, the growth of perturbations."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import servonode
from servonode.analysis.internal_motion import InternalMotion, Linearised, Orbit, growth_along, orbit_near, period_of
from servonode.analysis.perturbations import follow
from servonode.analysis.zero_dynamics import judge
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.simulation.continuous_loop import ContinuousLoop, passive_coordinates
from tests.helpers import verdict_machines

L, G, DAMPING = 0.3, 9.81, 0.002 / (0.2 * 0.3**2)  # of the pendulum on a pivot: m, m/s^2, 1/s
UP = float(np.pi)


@cache
def shaken(goal: str, at: float, rate: float = 0.0, duration: float = 1.0) -> ClosedLoop:
    """A pendulum whose pivot follows the goal; rate: of the pivot at the start [m/s]."""
    return servonode.load(
        {
            "run": {"duration": duration},
            "plant": {"machine": verdict_machines.pivot, "initial": {"theta": at, "y_dot": rate}},
            "controller": {"program": verdict_machines.follow, "settings": {"output": "y"}},
            "target": {"y1": goal},
        }
    ).closed_loop


def found(closed_loop: ClosedLoop) -> tuple[float | None, Orbit | None]:
    loop = ContinuousLoop(closed_loop)
    passive = passive_coordinates(loop)
    active = np.array([name not in passive for name in loop.names])
    motion = follow(loop, closed_loop.launch.duration_ns / 1e9, active)
    period = period_of(loop, motion)
    return period, orbit_near(InternalMotion(loop, passive), motion, period) if period else None


def by_hand(amplitude: float, speed: float, at: float) -> Any:
    """The matrix of a period of x'' = -(g + y'') cos(at)/L x - DAMPING x'."""

    def rates(t: float, x: Any) -> Any:
        pull = (G - amplitude * speed**2 * np.sin(speed * t)) / L * np.cos(at)
        return [x[1], -pull * x[0] - DAMPING * x[1]]

    ends = [solve_ivp(rates, (0, 2 * UP / speed), e, rtol=1e-11, atol=1e-12).y[:, -1] for e in np.eye(2)]
    return np.array(ends).T


SHAKEN = [(0.08, 60.0, UP), (0.08, 25.0, UP), (0.03, 11.4, 0.0), (0.03, 8.0, 0.0)]


@pytest.mark.parametrize(("amplitude", "speed", "at"), SHAKEN)
def test_the_multipliers_are_those_of_the_equation_by_hand(amplitude: float, speed: float, at: float) -> None:
    duration = max(1.0, 2.2 * UP / speed)
    beside = at - 0.05  # the periodic motion is found, not given
    period, orbit = found(shaken(f"{amplitude}*sin({speed}*t)", beside, amplitude * speed, duration))
    assert period == pytest.approx(2 * UP / speed, rel=1e-6)
    assert orbit is not None
    assert orbit.values == pytest.approx((at, 0.0), abs=1e-5)
    assert orbit.names == ("theta", "theta_dot")
    expected = np.linalg.eigvals(by_hand(amplitude, speed, at))
    assert_allclose(np.sort(np.abs(orbit.multipliers)), np.sort(np.abs(expected)), rtol=1e-4)
    assert np.prod(orbit.multipliers).real == pytest.approx(np.exp(-DAMPING * period), rel=1e-5)  # Liouville


@pytest.mark.parametrize(("share", "stable"), [(0.9, False), (1.1, True)])
def test_an_upright_pendulum_is_held_where_its_fast_pivot_meets_kapitzas_criterion(share: float, stable: bool) -> None:
    speed = 400.0
    amplitude = float(np.sqrt(share * 2 * G * L)) / speed  # (a w)^2 = 2 g L is the limit
    orbit = found(shaken(f"{amplitude}*sin({speed}*t)", UP, amplitude * speed, 0.05))[1]
    assert orbit is not None
    assert orbit.unstable is not stable


@pytest.mark.parametrize("goal", ["0.1*t", "0.1*tanh(t)", "0.1*sin(9*t) + 0.1*sin(9*sqrt(2)*t)", "0.1", "0.1*sin(5*t)"])
def test_a_goal_that_does_not_return_within_the_run_has_no_period(goal: str) -> None:
    assert found(shaken(goal, 0.1)) == (None, None)


def test_the_period_of_two_sines_is_that_of_both() -> None:
    assert found(shaken("0.02*sin(12*t) + 0.01*cos(18*t)", 0.1, 0.24, 1.5))[0] == pytest.approx(2 * UP / 6, rel=1e-6)


def test_a_robot_on_a_circle_turns_over_and_its_angle_to_the_path_decays() -> None:
    """A point L ahead drives on a circle of radius R: a' = w - (R w/L) sin a, a between robot and path."""
    R, w, L = 2.0, 0.5, 1.6
    a = np.arcsin(L / R)
    start = {"X": R - L * np.cos(UP / 2 - a), "Y": -L * np.sin(UP / 2 - a), "psi": UP / 2 - a}
    start |= {"V": R * w * np.cos(a), "Omega": R * w * np.sin(a) / L}
    stated = {
        "run": {"duration": 30.0},
        "plant": {"machine": "diff_drive_trailer", "initial": start},
        "controller": {"program": "look_ahead", "settings": {"L": L}},
        "target": {"x": f"{R}*cos({w}*t)", "y": f"{R}*sin({w}*t)"},
    }
    orbit = found(servonode.load(stated).closed_loop)[1]
    assert orbit is not None
    expected = -w * np.sqrt((R / L) ** 2 - 1)
    assert np.abs(orbit.eigenvalues.real - expected).min() < 1e-4 * abs(expected), orbit.eigenvalues


def linear(matrix: Any, velocities: Any) -> Linearised:
    names = tuple("abc"[: len(matrix)])
    return Linearised(
        0.0, np.zeros(0), names, (0.0,) * len(names), np.linalg.eigvals(matrix).astype(complex), np.zeros(0),
        np.array(matrix), np.array(velocities),
    )  # fmt: skip


def test_the_growth_counts_transients_and_does_not_depend_on_the_unit_of_time() -> None:
    assert growth_along([linear([[0.05]], [False])], 10.0) == pytest.approx(np.exp(0.5), rel=1e-12)
    slow = linear([[0.05, 10.0], [0.0, 0.05]], [False, False])  # two displacements
    assert growth_along([slow], 10.0) == pytest.approx(100 * np.exp(0.5), rel=0.01)
    drifting = linear([[0.0, 1.0], [0.0, 0.0]], [False, True])  # a velocity is no displacement
    assert growth_along([drifting], 100.0) == 1.0
    for rate in (1.0, 1000.0):
        turning = linear([[0.0, 1.0], [-(rate**2), 0.0]], [False, True])
        assert growth_along([turning], 10.0) == pytest.approx(1.0, rel=1e-9)
    falls, recovers = linear([[0.5]], [False]), linear([[-0.5]], [False])
    assert growth_along([recovers, falls], 20.0) == pytest.approx(np.exp(5.0), rel=1e-9)  # not exp(0)


@pytest.mark.parametrize(("duration", "judgement"), [(10.0, "bounded"), (100.0, "growing")])
def test_an_instability_is_judged_by_its_growth_within_the_run(duration: float, judgement: str) -> None:
    stated = {
        "run": {"duration": 10.0},
        "plant": {"machine": "diff_drive_trailer", "initial": {"V": -0.05}},
        "controller": {"program": "rates", "settings": {"v": "-0.05"}},
    }
    found = judge(servonode.load(stated).closed_loop, run=duration)  # of which 10 s are simulated
    assert (found.judgement, found.diverges) == (judgement, judgement == "bounded")
    assert found.rate == pytest.approx(0.05, rel=1e-6)  # V/b
    if found.diverges:
        said = "perturbations grow 1.6-fold in this run of 10 s, e-fold in 20 s: a run of more than 73.8 s is refused"
        assert said in found.text  # 20 s log(40)
