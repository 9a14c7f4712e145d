"""Machines in natural coordinates: trailers in absolute angles, the Whipple bicycle in the fixed frame."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from scipy.optimize import brentq

import servonode
from servonode.errors import ModelError
from servonode.mechanics import Model, constraint, coordinate, independent
from servonode.mechanics.derive import derive
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.machine import Machine
from servonode.mechanics.straight_line import ordered, symbols_of
from tests.helpers.natural_coordinates import R_REAR, bicycle, trailers
from tests.mechanics.test_independent import four_bar

Array = Any
HERE = Path(__file__)
TARGET = {"X": "0.8*t + 0.1*sin(0.7*t)", "Y": "0.6*sin(0.5*t)"}


def rates_at(model: Model, states: dict[str, Array]) -> Array:
    """Rates of coordinates and v' without inputs, (n, n_q + n_v), of the derived equations with default parameters."""
    equations = derive(model)
    n_q, n_v = len(model.coordinates), len(model.velocities)
    _, *rates = equations.rates.values()
    entries = [*rates, *equations.h_r, *equations.M_r]
    size = len(next(iter(states.values())))
    values: dict[Any, Array] = {p: np.full(size, p.quantity.default) for p in model.parameters}
    values |= {each: states[each.name] for each in model.state}
    found = at_states(entries, values)
    M = found[:, n_q + n_v :].reshape(-1, n_v, n_v)
    return np.hstack([found[:, :n_q], np.linalg.solve(M, -found[:, n_q : n_q + n_v, None])[..., 0]])


def test_trailers_in_absolute_angles_have_the_accelerations_of_hitch_angles(rng: np.random.Generator) -> None:
    names = ["x", "y", "t0", "h1", "h2", "v", "w"]
    by_hitch = dict(zip(names, rng.uniform(-1.2, 1.2, (len(names), 20)), strict=True))
    absolute = by_hitch | {"t1": by_hitch["t0"] - by_hitch["h1"]}
    absolute["t2"] = absolute["t1"] - by_hitch["h2"]
    ours, hitch = rates_at(trailers(2), absolute), rates_at(trailers(2, hitch_angles=True), by_hitch)
    assert_allclose(ours[:, [0, 1, 5, 6]], hitch[:, [0, 1, 5, 6]], rtol=1e-11, atol=1e-11)
    assert_allclose(ours[:, 3], hitch[:, 4] - hitch[:, 3], rtol=1e-11, atol=1e-11)  # t1' = t0' - h1'


def test_equations_that_reduction_makes_longer_are_straight_line_programs() -> None:
    equations = derive(trailers(2))
    definitions = [each.definition for each in ordered([*equations.M_r, *equations.h_r])]
    assert 0 < sum(map(sympy.count_ops, definitions)) < 800, "multiplied out they have 2 200"
    assert not ordered([*derive(trailers(1)).h_r]), "short ones stay sums"
    assert equations.by_numbers == (), "that the kinematics hold is proved all the same"


def test_named_minors_give_the_rates_of_cramers_rule(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    wanted = four_bar()
    monkeypatch.setattr(independent, "WRITTEN_OUT", 0)
    model = four_bar()
    states = {each: rng.uniform(0.2, 1.5, 10) for each in (*model.coordinates, *model.parameters, *model.velocities)}
    rates = [at_states([*each.kinematics.values()], states) for each in (model, wanted)]
    assert ordered(model.kinematics.values())
    assert not ordered(wanted.kinematics.values())
    assert_allclose(*rates, rtol=1e-11)
    margins = [at_states([each.faults[0].margin], states) for each in (model, wanted)]
    assert_allclose(*margins, rtol=1e-11)  # the dead point's, with all angles of the loop


def test_constraints_that_leave_a_dependent_rate_open_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (coordinate(name, "angle", "rad") for name in "abc")
    monkeypatch.setattr(independent, "WRITTEN_OUT", 0)
    rows = ((b + c - a) * sympy.cos(a), 2 * (sympy.sin(b + c) * sympy.cos(a) - sympy.sin(a) * sympy.cos(b + c)))
    first, second = (sum(row.diff(q) * q.rate for q in (b, c)) for row in rows)
    held = constraint("F0", "force", first - a.rate), constraint("F1", "force", second)
    with pytest.raises(ModelError, match=r"F0, F1 do not determine the rates of b, c.*other independent="):
        Model("open", "", a.rate**2, coordinates=(a, b, c), independent=(a,), constraints=held)


@pytest.mark.slow
def test_last_trailer_follows_in_absolute_angles_as_in_hitch_angles() -> None:
    """Relative degree 5 through two integrators: the same motion, and the residuals decay."""
    runs = [servonode.load(last_trailer(hitch_angles)).simulate() for hitch_angles in (False, True)]
    absolute, hitch = runs
    for name in ("x", "y", "t0", "v", "w"):
        assert_allclose(absolute.state[name], hitch.state[name], rtol=0, atol=1e-8)
    behind = hitch.state["t0"] - hitch.state["h1"] - hitch.state["h2"]
    assert_allclose(absolute.state["t2"], behind, rtol=0, atol=1e-8)
    assert max(np.abs(absolute.residual[name]).max() for name in ("px", "py")) < 2e-5
    assert absolute.energy_error < 1e-12


def last_trailer(hitch_angles: bool) -> dict[str, Any]:
    return {
        "run": {"duration": 4.0},
        "plant": {"machine": trailers(2, hitch_angles), "step": 0.001, "initial": {"on_program": True}},
        "controller": {
            "period": 0.002, "residuals": {"px": "x - X", "py": "y - Y"}, "gains": {"lambda": 6.0},
        },
        "target": TARGET,
    }  # fmt: skip


@pytest.fixture(scope="module")
def whipple(small: ModuleType) -> Machine:
    found: Machine = small.machine(bicycle, {}, HERE)
    return found


def linearised(machine: Machine, speed: float) -> Array:
    """Eigenvalues of lean and steer about upright rolling, by central differences."""
    names = machine.description.state_names
    upright = machine.state({"tr_dot": speed / R_REAR})
    rows = [names.index(name) for name in ("phi", "de", "phi_dot", "de_dot")]
    columns = []
    for row in rows:
        step = 1e-5 * np.eye(len(upright))[row]
        sides = [machine.derivatives(0.0, upright + sign * step, np.zeros(2))[rows] for sign in (1, -1)]
        columns.append((sides[0] - sides[1]) / 2e-5)
    return np.linalg.eigvals(np.transpose(columns))


@pytest.mark.slow
def test_bicycle_has_the_eigenvalues_of_the_benchmark(whipple: Machine) -> None:
    """Table 2 of J. P. Meijaard, J. M. Papadopoulos, A. Ruina, A. L. Schwab, 2007, and its speeds of stability."""
    found = sorted(linearised(whipple, 5.0), key=lambda each: (each.real, each.imag))
    weave = -0.775341882195845 + 4.464867713788230j
    wanted = [-14.07838969279822, weave.conjugate(), weave, -0.322866429004087]
    assert_allclose(found, wanted, rtol=0, atol=1e-6)

    def oscillating(speed: float) -> float:
        return float(max(each.real for each in linearised(whipple, speed) if abs(each.imag) > 0.1))

    def creeping(speed: float) -> float:
        return float(max(each.real for each in linearised(whipple, speed) if abs(each.imag) < 0.1))

    assert brentq(oscillating, 4.0, 4.6) == pytest.approx(4.292382536341, abs=1e-5)
    assert brentq(creeping, 5.5, 6.5) == pytest.approx(6.024262015388, abs=1e-5)


@pytest.mark.slow
def test_bicycle_leans_as_told_and_keeps_its_energy_balance() -> None:
    start = {"tr_dot": 5 / 0.3, "on_program": True}
    loop = servonode.load({
        "run": {"duration": 4.0},
        "plant": {"machine": bicycle(), "step": 0.0025, "initial": start},
        "controller": {
            "period": 0.005,
            "residuals": {"lean": "phi - 0.1*sin(2*t)**4", "speed": "0.3*tr_dot - 5"},
            "gains": {"lambda": 5.0},
        },
    })  # fmt: skip
    run = loop.simulate()
    assert np.abs(run.residual["lean"]).max() < 5e-5
    assert np.abs(run.residual["speed"]).max() < 1e-3
    assert run.energy_error < 1e-6  # J, of 2 kJ
    pushed = servonode.load({
        "run": {"duration": 4.0},
        "plant": {"machine": bicycle(), "step": 0.0025, "initial": {"tr_dot": 5 / 0.3, "phi": 0.05}},
        "controller": {
            "period": 0.005, "residuals": {"lean": "phi", "speed": "0.3*tr_dot - 5"}, "gains": {"lambda": 5.0},
        },
    }).simulate()  # fmt: skip
    t = np.asarray(pushed.t)
    assert_allclose(pushed.residual["lean"], 0.05 * (1 + 5 * t) * np.exp(-5 * t), rtol=0, atol=1e-3)


def test_a_bicycle_is_solved_for_its_dependent_rates_by_named_minors() -> None:
    model = bicycle()
    assert ordered(model.kinematics.values()), "multiplied out the determinant has millions of products"
    by_name = {q.name: rate for q, rate in model.kinematics.items()}
    assert {each.name for each in symbols_of(by_name["th"])} == {"phi", "th", "de", "phi_dot", "de_dot"}
