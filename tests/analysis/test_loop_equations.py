"""The compiled equations of closed loops against Python's evaluation of machine and law, and against scipy."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import servonode
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.simulation.equations_source import AGAIN, APART, GOOD, HUGE, STOPPED, equations_source
from servonode.simulation.loop_equations import LoopEquations

FAMILIES = (
    "trailer_pursuit", "trailer_look_ahead", "trailer_hitch_turning", "trailer_open_loop", "trailer_coast",
    "sphero_pursuit", "sphero_trajectory", "sphero_bilimovich", "snowboarder_carve", "snowboarder_literal",
    "hoop_rolls", "ball_circle",
)  # fmt: skip
LONG = 2.0  # s


class ByHand:
    """x' of a closed loop, from the functions of machine and law as Python calls them."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.closed_loop, self.machine = closed_loop, closed_loop.machine
        self.law = closed_loop.control.law if closed_loop.control else None
        own = self.law.initial_states if self.law else np.zeros(0)
        self.start = np.append(closed_loop.start, own)

    def __call__(self, t: float, both: Any) -> Array:
        n_x = self.machine.n_state + 1
        x, own, u = np.ascontiguousarray(both[:n_x]), both[n_x:], np.zeros(self.machine.n_inputs)
        rates = np.zeros(0)
        if self.law is not None:
            y = self.closed_loop.goal(t, own)
            most = np.array(self.closed_loop.safety.limits.value)
            u = np.clip(self.law.evaluate(t, x, y).inputs, -most, most)
            rates = self.law.state_rates(t, x, y)
        return np.append(self.machine.derivatives(t, x, u), rates)

    def held(self, t: float, both: Any) -> Array:
        n_x = self.machine.n_state + 1
        x, parts = np.ascontiguousarray(both[:n_x]), list[Array]()
        if self.law is not None and not self.law.description.explicit:
            y = self.closed_loop.goal(t, both[n_x:])
            if self.law.description.extension:
                parts = self.law.chains(t, x, y)
            else:
                terms = self.law.terms(t, x, y)
                parts = [terms["f"], terms["f_dot"][np.array(self.law.description.relative_degrees) > 1]]
        return np.concatenate([*parts, self.machine.position_residual(t, x)])


def loaded(name: str, **more: Any) -> ClosedLoop:
    return servonode.load(name, **more).closed_loop


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> ByHand:
    return ByHand(loaded(request.param))


def test_rates_held_residuals_and_slopes_are_those_of_machine_and_law(family: ByHand) -> None:
    equations = LoopEquations(family.closed_loop, strict=False, integrals=False)
    rng, n_x = np.random.default_rng(3), family.machine.n_state + 1
    entries = np.delete(np.arange(len(family.start)), n_x - 1)
    for t in (0.0, 1.3):
        x = family.start + rng.uniform(-0.02, 0.02, len(family.start))
        copies = np.concatenate([x, x + 1e-3])
        wanted = np.concatenate([family(t, x), family(t, x + 1e-3)])
        assert_allclose(equations.rates(t, copies), wanted, rtol=1e-13, atol=1e-13)
        assert_allclose(equations.held(t, x), family.held(t, x), rtol=1e-13, atol=1e-14)
        A, C = equations.slopes(t, x)
        for j, e in enumerate(entries):
            beside = np.zeros(len(x))
            beside[e] = 1e-6
            slope = (family(t, x + beside) - family(t, x - beside))[entries] / 2e-6
            assert_allclose(A[:, j], slope, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(slope).max()))
            slope = (family.held(t, x + beside) - family.held(t, x - beside)) / 2e-6
            assert_allclose(C[:, j], slope, rtol=1e-5, atol=1e-6 * max(1.0, np.abs(slope).max(initial=0.0)))


def test_motions_are_those_of_scipy(family: ByHand) -> None:
    times, closed_loop = np.linspace(0.0, LONG, 41), family.closed_loop
    equations = LoopEquations(closed_loop, strict=True, integrals=False)
    found = np.zeros((len(times), len(family.start)))
    code, rows, _, _ = equations.solve(times, 0, 0.0, family.start, np.inf, 1e-10, 1e-12, found)
    assert (code, rows) == (GOOD, len(times))
    wanted = solve_ivp(family, (0.0, LONG), family.start, "DOP853", times, rtol=1e-10, atol=1e-12).y.T
    size = np.maximum(np.abs(wanted).max(axis=0), 1.0)
    assert (np.abs(found - wanted).max(axis=0) < 1e-8 * size).all()


def test_columns_of_perturbations_are_differences_of_motions(family: ByHand) -> None:
    """The fundamental matrix after half a second, column by column."""
    equations, n = LoopEquations(family.closed_loop, strict=False, integrals=False), len(family.start)
    entries = np.delete(np.arange(n), family.machine.n_state)
    together = np.append(family.start, np.eye(n - 1).ravel())
    part = equations.steps(0.0, together, 0.5, 1e-8, 1e-10, columns=n - 1)
    assert part.code == GOOD
    Phi = part.states[-1, n:].reshape(n - 1, n - 1).T

    def moved(x: Array) -> Array:
        found = np.zeros((2, n))
        equations.solve(np.array([0.0, 0.5]), 0, 0.0, x, np.inf, 1e-12, 1e-13, found)
        ends: Array = found[1, entries]
        return ends

    for j, e in enumerate(entries):
        beside = np.zeros(n)
        beside[e] = 1e-5
        slope = (moved(family.start + beside) - moved(family.start - beside)) / 2e-5
        assert_allclose(Phi[:, j], slope, rtol=1e-3, atol=2e-5 * max(1.0, np.abs(slope).max()))


def test_the_integrals_of_the_residuals_belong_to_the_motion_where_they_are_asked_for() -> None:
    closed_loop = loaded("trailer_pursuit", controller__gains={"lambda": 2.0, "integral": 0.5})
    assert closed_loop.control is not None
    law = closed_loop.control.law
    equations = LoopEquations(closed_loop, strict=True, integrals=True)
    x = np.append(closed_loop.start, np.full(law.n_s, 0.3))
    y = closed_loop.goal(0.0)
    y[law.goal_layout.integrals] = 0.3
    answer = law.evaluate(0.0, closed_loop.start, y)
    rates = equations.rates(0.0, x)
    assert (rates[-law.n_s :] == answer.residuals).all()
    assert_allclose(equations.u, answer.inputs)
    assert LoopEquations(closed_loop, strict=True, integrals=False).n == len(closed_loop.start)


def test_steps_end_where_a_velocity_is_huge_copies_come_apart_the_law_stops_or_enough_are_told() -> None:
    closed_loop = loaded("trailer_pursuit")
    equations, x = LoopEquations(closed_loop, strict=False, integrals=False), closed_loop.start
    assert equations.steps(0.0, x, 5.0, 1e-9, 1e-9, most=3).code == AGAIN
    weights = np.ones(len(x))
    assert equations.steps(0.0, np.concatenate([x, x + 200.0]), 5.0, 1e-9, 1e-9, weights=weights).code == APART
    first = equations.steps(0.0, x, 5.0, 1e-9, 1e-9, fastest=0.0, velocities=weights)
    assert (first.code, len(first.times)) == (HUGE, 1)
    settings = {"completion": "speed", "v": "t", "V_max": 5.0}
    fast = {
        "run": {"duration": 20.0},
        "plant": {"machine": "diff_drive_trailer"},
        "controller": {"program": "hitch_angle", "settings": settings},
    }
    stopping = servonode.load(fast, strict=False).closed_loop
    motion = LoopEquations(stopping, strict=False, integrals=False).steps(
        0.0, stopping.start, 20.0, 1e-9, 1e-9, stops=True
    )
    assert motion.code == STOPPED
    assert 5.0 <= motion.times[-1] < 5.6


def test_continued_steps_are_the_steps_of_one_integration() -> None:
    closed_loop = loaded("sphero_pursuit")
    equations, x = LoopEquations(closed_loop, strict=False, integrals=False), closed_loop.start
    whole = equations.steps(0.0, x, 3.0, 1e-9, 1e-9)
    t, times, length = 0.0, list[float](), 0.0
    while t < 3.0:
        part = equations.steps(t, x, 3.0, 1e-9, 1e-9, most=4, length=length)
        times += part.times.tolist()
        t, x, length = times[-1], part.states[-1], part.length
    assert times == whole.times.tolist()
    assert (x == whole.states[-1]).all()


def test_other_numbers_take_the_same_compiled_equations() -> None:
    numbers = {
        "plant__parameters": {"m1": 7.5}, "plant__initial": {"phi": 0.1}, "controller__gains": {"lambda": 1.5},
        "controller__settings": {"a": 1.1},
    }  # fmt: skip
    loops = [loaded("trailer_pursuit"), *(loaded("trailer_pursuit", **{key: value}) for key, value in numbers.items())]
    texts = {equations_source(loop, (), True) for loop in loops}
    assert len(texts) == 1
    made = [LoopEquations(loop, strict=False, integrals=False) for loop in loops]
    rates = [each.rates(0.0, loop.start + 0.01).tobytes() for each, loop in zip(made, loops, strict=True)]
    assert len(set(rates)) == len(loops)


def test_integrations_in_threads_have_the_bits_of_those_one_after_the_other() -> None:
    loops = [loaded("trailer_pursuit", plant__initial={"phi": phi}) for phi in (0.0, 0.1, 0.2, 0.3)]

    def final(loop: ClosedLoop) -> bytes:
        found = np.zeros((2, len(loop.start)))
        equations = LoopEquations(loop, strict=True, integrals=True)
        equations.solve(np.array([0.0, 50.0]), 0, 0.0, loop.start, np.inf, 1e-12, 1e-12, found)
        return found.tobytes()

    alone = [final(loop) for loop in loops]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(final, loops)) == alone
    assert len(set(alone)) == len(loops)
