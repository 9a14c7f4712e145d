"""Closed loops from starts beside their program: residuals decay as stated, whatever else moves.

f = f0 exp(-rate t) for relative degree 1, [f0 + (f0' + rate f0) t] exp(-rate t) for 2; a matrix exponential where
gains are coupled.
"""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

import servonode
from servonode.record.run import Run

TRAILER = {"psi": 0.3, "phi": 0.2, "V": 0.5, "Omega": 0.1}
SPHERO = {
    "n": [0.12, -0.16, -float(np.sqrt(0.96))],
    "omega": [0.4, 1.5, 0.3],
    "Omega": [0.1, 0.2, -0.3],
    "X": 0.2,
    "Y": -0.1,
}
UNLIMITED = {"kappa": 0.0, "a_lim": 1e9, "Q_max": 1e9}
RIDER = {"phi0": float(np.arctan(0.3)) + 0.05, "theta": -0.05, "sigma": 0.1, "v": 5.0}
RIDER |= {"theta_dot": 0.1, "sigma_dot": -0.1}
MACHINES: dict[str, tuple[dict[str, Any], dict[str, float]]] = {  # a start beside the program, other parameters
    "diff_drive_trailer": (TRAILER, {"c_w": 0.01}),
    "pendulum_sphero": (SPHERO, {"c_j": 0.01, "c_r": 0.002}),
    "snowboarder": (RIDER, {"m1": 55.0, "J1": 15.0, "alpha": 0.25, "c1": 4.0, "c2": 0.2}),
}
MOVING = {"x": "0.3*t", "y": "0.2*sin(t)"}
AHEAD = {"x": "2 + 0.3*t", "y": "1"}
CURVE = {"kappa0": 0.0, "kappa1": 0.12, "Lambda": 40.0, "chi0": 0.3, "c_n": 0.4, "V_d": 7.0, "Omega_d": 1.0, "n0": 0.3}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {  # machine, settings of the program, target
    "pursuit": ("diff_drive_trailer", {"rho0": 2.0}, AHEAD),
    "pursuit plain": ("diff_drive_trailer", {"rho0": 2.0, "variant": "plain"}, AHEAD),
    "pursuit differential": ("diff_drive_trailer", {"rho0": 2.0, "variant": "differential"}, AHEAD),
    "look_ahead": ("diff_drive_trailer", {}, MOVING),
    "trailer_path": ("diff_drive_trailer", {"path": "circle", "radius": 3.0}, {}),
    "rates": ("diff_drive_trailer", {"v": "0.4 + 0.2*sin(t)", "Omega_d": "0.5*cos(2*t)"}, {}),
    **{
        f"hitch_angle {completion}": ("diff_drive_trailer", {"completion": completion, "g": "0.5"}, {})
        for completion in ("speed", "opposed", "least_norm", "one_motor", "yaw_rate")
    },
    "pursuit spin": ("pendulum_sphero", {"rule": "spin", **UNLIMITED}, AHEAD),
    "line": ("pendulum_sphero", {"direction": [2.0, 1.0], "V": "0.3 + 0.1*sin(t)", **UNLIMITED}, {}),
    "circle": ("pendulum_sphero", {"V": "0.5 + 0.1*sin(t)", "rule": "spin", **UNLIMITED}, {}),
    "trajectory": ("pendulum_sphero", UNLIMITED, MOVING),
    "stop": ("pendulum_sphero", {"rule": "spin", **UNLIMITED}, {}),
    "bilimovich": ("pendulum_sphero", {"g_B": "0.5*sin(0.7*t)", **UNLIMITED}, {}),
    "bilimovich speed": ("pendulum_sphero", {"g_B": "0.5*sin(0.7*t)", "V": "0.2 + 0.1*t", **UNLIMITED}, {}),
    "tilt": ("pendulum_sphero", {"n_x": "0.1*sin(t)", "n_y": "0.05*cos(2*t)", "Q_max": 1e9}, {}),
    "slalom": ("snowboarder", {"c_y": 0.3}, {}),
    "slalom ideal": ("snowboarder", {"c_y": 0.3, "actuation": "ideal"}, {}),
    "carve": ("snowboarder", {}, {}),
    "curve": ("snowboarder", CURVE, {}),
    "literal": ("snowboarder", {}, {}),
}


def simulated(name: str, **gains: Any) -> tuple[Run, Any, Any]:
    """A run of a second, the residuals and their rates at its start."""
    machine, settings, target = CASES[name]
    initial, parameters = MACHINES[machine]
    if name == "literal":
        initial = initial | {"theta": 0.3}
    run: Run = servonode.simulate(
        {
            "run": {"duration": 1.0},
            "plant": {"machine": machine, "initial": initial, "parameters": parameters},
            "controller": {"program": name.partition(" ")[0], "settings": settings, "gains": gains},
            "target": target,
        },
        control="continuous", every=20, rtol=1e-13, atol=1e-13,
    )  # fmt: skip
    loop = run.closed_loop
    assert loop.control is not None
    answer = loop.control.law.evaluate(0.0, loop.start, loop.goal(0.0))
    return run, answer.residuals, answer.rates


@pytest.mark.parametrize("name", CASES)
def test_residuals_decay_as_stated(name: str) -> None:
    run, first, slopes = simulated(name)
    assert run.fault is None
    control = run.closed_loop.control
    assert control is not None
    for i, relative_degree in enumerate(control.law.description.relative_degrees):
        rate = control.gains.K0[i, i] if relative_degree == 1 else control.gains.K1[i, i] / 2
        slope = 0.0 if relative_degree == 1 else slopes[i] + rate * first[i]
        expected = (first[i] + slope * run.t) * np.exp(-rate * run.t)
        residual = list(run.residual)[i]
        assert_allclose(run.residual[residual], expected, rtol=0, atol=1e-10, err_msg=residual)
    assert np.abs(first).min() > 1e-3


def test_coupled_gains_make_the_residuals_a_matrix_exponential(rng: np.random.Generator) -> None:
    K0 = 25 * np.eye(3) + rng.uniform(-8, 8, (3, 3))
    K1 = 10 * np.eye(3) + rng.uniform(-3, 3, (3, 3))
    run, f, rates = simulated("slalom", K0=K0.tolist(), K1=K1.tolist())
    A = np.block([[np.zeros((3, 3)), np.eye(3)], [-K0, -K1]])
    expected = [(expm(A * t) @ [*f, *rates])[:3] for t in run.t]
    assert_allclose(np.array(list(run.residual.values())).T, expected, rtol=0, atol=1e-10)
