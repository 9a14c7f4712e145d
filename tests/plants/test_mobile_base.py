"""Mobile base: closed forms by hand, both sets of inputs, what is sent to a base that takes speeds, and its runs."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.mechanics.machine import Machine
from tests.helpers.machines import warns
from tests.helpers.packaged import load_machine

X, Y, PSI, V, OMEGA = range(5)


@pytest.fixture(scope="module")
def base() -> Machine:
    return load_machine("mobile_base", {}, {})


@pytest.fixture(scope="module")
def wheels() -> Machine:
    return load_machine("mobile_base", {}, {"input_set": "wheels"})


def test_at_constant_speeds_it_drives_on_an_arc(base: Machine, flow: Any) -> None:
    x = flow(base, base.state({"X": 0.2, "Y": -0.1, "psi": 0.4, "V": 0.3, "Omega": 0.7}), 5.0, np.zeros(2))[:, -1]
    radius, psi = 0.3 / 0.7, 0.4 + 0.7 * 5.0
    arc = [0.2 + radius * (np.sin(psi) - np.sin(0.4)), -0.1 - radius * (np.cos(psi) - np.cos(0.4)), psi, 0.3, 0.7]
    assert_allclose(x[:5], arc, rtol=0, atol=1e-9)


def test_efforts_and_friction_of_wheels_are_those_of_the_body(base: Machine, wheels: Machine) -> None:
    rng, c = np.random.default_rng(1), {"c_w": 0.003}
    for _ in range(20):
        x, (U1, U2) = np.append(rng.normal(size=5), 0.0), rng.normal(size=2)
        p = base.parameters
        body = np.array([(U1 + U2) / p["r"], p["l"] / p["r"] * (U2 - U1)])
        found = wheels.with_parameters(c).derivatives(0.0, x, np.array([U1, U2]))
        assert_allclose(found, base.with_parameters(c).derivatives(0.0, x, body), rtol=1e-12, atol=1e-12)
        rates = [(x[V] - p["l"] * x[OMEGA]) / p["r"], (x[V] + p["l"] * x[OMEGA]) / p["r"]]
        assert_allclose(wheels.input_rates(0.0, x), rates, rtol=1e-13)
        assert_allclose(base.input_rates(0.0, x), x[[V, OMEGA]], rtol=1e-13, atol=1e-15)
        friction = -c["c_w"] * np.array(rates)
        by_hand = [(friction[0] + U1 + friction[1] + U2) / p["r"] / p["m"]]
        by_hand.append(p["l"] / p["r"] * (friction[1] + U2 - friction[0] - U1) / p["J"])
        assert_allclose(found[[V, OMEGA]], by_hand, rtol=1e-12)


@pytest.mark.parametrize("input_set", ["body", "wheels"])
def test_the_brake_is_the_same_in_both_sets_of_inputs(input_set: str) -> None:
    machine = load_machine("mobile_base", {}, {"input_set": input_set})
    x, p = machine.state({"psi": 0.3, "V": 0.4, "Omega": -0.9}), machine.parameters
    slows = machine.derivatives(0.0, x, machine.safe_input(0.0, x))
    assert slows[V] == pytest.approx(-0.4 * 2 * p["c_b"] / p["r"] ** 2 / p["m"], rel=1e-12)
    assert slows[OMEGA] == pytest.approx(0.9 * 2 * p["c_b"] * p["l"] ** 2 / p["r"] ** 2 / p["J"], rel=1e-12)


def test_the_slip_warning_begins_at_friction_times_mass(base: Machine) -> None:
    x = base.state({"V": 2.0, "Omega": 2.5 * (1 - 1e-9)})
    assert not warns(base, x, [0.0, 0.0], "slip sideways")
    x[OMEGA] = 2.5 * (1 + 1e-9)
    assert warns(base, x, [0.0, 0.0], "slip sideways")


@pytest.mark.parametrize("wrong", [{"m": 7.0, "J": 0.5}, {"m": 0.2}])
def test_a_base_that_takes_speeds_needs_no_mass(wrong: dict[str, float]) -> None:
    known = servonode.simulate("base_eight", run__duration=4.0)
    other = servonode.simulate("base_eight", run__duration=4.0, plant__parameters=wrong)
    for name in ("X", "Y", "psi"):
        assert_allclose(other.state[name], known.state[name], rtol=0, atol=1e-6)
