"""What a zero-order hold and noise leave of the residuals (docs/explanation/mathematics.md, eq. 9 and 10)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb

import numpy as np

from servonode.analysis.linear_system import slope
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.static_checks import Examination
from servonode.controllers import ServoLaw
from servonode.mechanics import discrete
from servonode.mechanics.machine import Machine
from servonode.mechanics.stabilize import UnstableGains
from servonode.record.run import Run

DIFFERENCE = 1e-6
ROWS = 400  # rows of a run that are looked at


def rows_of(run: Run, most: int) -> Iterator[tuple[int, float, Array, Array]]:
    """About so many rows of a run, evenly spread: the row, its time [s], state as kernels take it, and inputs."""
    states, inputs = np.array(list(run.state.values())), run.inputs
    for i in range(0, len(run.t), max(1, len(run.t) // most)):
        yield i, float(run.t[i]), np.append(states[:, i], 0.0), np.ascontiguousarray(inputs[:, i])


def pose(machine: Machine, x: Sequence[float]) -> dict[str, float]:
    """The coordinates of a state, by name."""
    named = zip(machine.description.state_names, x, strict=False)
    return {name: float(value) for name, value in named if name in machine.description.coordinates}


def judge_along(closed_loop: ClosedLoop, run: Run, found: Examination) -> None:
    """Condition of W along the run, and what the zero-order hold leaves of the residuals."""
    control, launch, machine = closed_loop.known_control, closed_loop.launch, closed_loop.machine
    assert launch.steps_per_period is not None
    law, period = control.law, control.times.period
    advance = machine.advancer(launch.plant.integrator)
    answer, largest = law.answer(), np.zeros(law.n_s)
    conditions: list[tuple[float, float, list[float]]] = []
    limits = np.array(closed_loop.safety.limits.value) * (1 - 1e-9)
    signs: list[tuple[float, float]] = []
    for i, t, x, u in rows_of(run, ROWS):
        if i + 1 == len(run.t):
            break
        own = np.array([values[i] for values in run.program_state.values()])
        y = closed_loop.goal(t, own)
        if law.compute(t, x, y, answer):
            continue
        conditions.append((answer.condition, t, x.tolist()))
        if law.description.extension is not None:
            signs.append((t, float(np.sign(np.linalg.det(law.terms(t, x, y)["W"])))))
        before = _Held(t, x.copy(), u, y, answer.inputs.copy())
        own = own + period * law.state_rates(t, x, y)
        advance(int(run.k[i]), launch.steps_per_period, launch.step_ns, x, u, machine.c)
        if run.t[i] > run.t[-1] / 2 and (np.abs(u) < limits).all():  # what starts off the program is over by then
            y = closed_loop.goal(t + period, own)
            if law.compute(t + period, x, y, answer):
                continue
            after = _Held(t + period, x, u, y, answer.inputs)
            largest = np.maximum(largest, _hold_effect(closed_loop, before, after))
    _judge_crossing(law, signs, found)
    if not conditions:
        return
    worst, when, state = max(conditions)
    found.numbers["simulated"] |= {
        "condition_max": worst,
        "condition_max_t": when,
        "condition_max_pose": pose(machine, state),
    }
    try:
        steady = largest
        if law.description.extension is None:
            steady = discrete.steady_hold_residual(control.gains, period, control.delay, largest)
    except (UnstableGains, np.linalg.LinAlgError):
        return
    names = [each.name for each in law.description.residuals]
    found.numbers["steady_residual"] = dict(zip(names, map(float, np.abs(steady)), strict=True))


def _judge_crossing(law: ServoLaw, signs: list[tuple[float, float]], found: Examination) -> None:
    """Whether the determinant of the decoupling matrix changes its sign between two of the instants."""
    for (before, one), (after, other) in pairwise(signs):
        if one * other < 0:
            names = " and ".join(each.name for each in law.description.residuals)
            text = f"crosses a singular set between t = {before:.4g} s and {after:.4g} s, where the inputs cannot move "
            found.add("refuse", "run", f"{text}{names} independently; keep the goal away from it")
            return


@dataclass(frozen=True)
class _Held:
    """One of two instants a period apart, under the same held inputs u; `wanted` are the law's."""

    t: float
    x: Array
    u: Array
    y: Array
    wanted: Array


def _hold_effect(closed_loop: ClosedLoop, before: _Held, after: _Held) -> Array:
    """How fast f^(r) drifts under the held inputs; of a law with an extension what they leave of the residuals."""
    control, law = closed_loop.known_control, closed_loop.known_control.law
    if law.description.extension is not None:
        late = (after.wanted - before.wanted) * (0.5 + control.delay)
        return _left_by_held_inputs(control, closed_loop.machine, before.t, before.x, before.y, late)
    terms = [law.terms(each.t, each.x, each.y) for each in (before, after)]
    ends = [each["W"] @ before.u + each["b"] for each in terms]  # f^(r)
    return np.abs(ends[1] - ends[0]) / control.times.period


def judge_noise(closed_loop: ClosedLoop, found: Examination) -> None:
    """Standard deviation of the residuals caused by the sensors' noise, at the initial state."""
    control, noise = closed_loop.known_control, np.array(closed_loop.sensor.noise)
    if not noise.any() or control.gains.plain:
        return
    law, y = control.law, closed_loop.goal(0.0)
    period, delay = control.times.period, control.delay
    names = [each.name for each in law.description.residuals]

    def errors(x: Array) -> Array:
        answer = law.evaluate(0.0, x, y)
        return np.append(answer.residuals, answer.rates)

    if law.description.extension is not None:
        sigma = discrete.held_noise(
            control.gains, period, delay, _noise_of_demand(control, closed_loop.start, y, noise)
        )
    else:
        slopes = slope(errors, closed_loop.start, np.full(len(noise), DIFFERENCE))
        s_f, s_f_dot = np.sqrt(slopes**2 @ noise**2).reshape(2, -1)
        sigma = discrete.held_noise(control.gains, period, delay, s_f, s_f_dot)
    found.numbers["noise_residual"] = dict(zip(names, map(float, sigma), strict=True))


def _left_by_held_inputs(control: Control, machine: Machine, t: float, x: Array, y: Array, change: Array) -> Array:
    """The residuals (n_s,) that remain where inputs are older than they should be, and would have made `change` since.

    An input that is late by `change` takes [df^(j-1)/dv R change] off f^(j) without the law's knowledge, at each order
    j. The feedback makes of that f = sum over j of binomial(r, j) lambda^-j of it; nothing for a rate of 0.
    """
    law, still = control.law, np.zeros(len(x))
    here = machine.derivatives(t, x, still[: len(change)])
    moved = machine.derivatives(t, x, change) - here
    rows = [machine.description.state_names.index(name) for name in machine.description.velocities]
    size = max(float(np.max(np.abs(moved[rows]), initial=0.0)), 1e-300)
    still[rows] = DIFFERENCE * moved[rows] / size
    ahead, behind = law.chains(t, x + still, y), law.chains(t, x - still, y)
    lost = [size * (a - b) / (2 * DIFFERENCE) for a, b in zip(ahead, behind, strict=True)]
    return np.array([_left(each, rate) for each, rate in zip(lost, control.gains.rates, strict=True)])


def _left(lost: Array, rate: float) -> float:
    r = len(lost)
    return sum(comb(r, j) * abs(each) / rate**j for j, each in enumerate(lost, 1)) if rate else 0.0


def _noise_of_demand(control: Control, x: Array, y: Array, noise: Array) -> Array:
    """The noise (n_s,) of a residual that alone would make the demand as noisy as all states' `noise` (n_state,) do."""
    slopes = slope(lambda at: _demands(control, control.law.chains(0.0, at, y)), x, np.full(len(noise), DIFFERENCE))
    return np.asarray(np.linalg.norm(slopes * noise, axis=1))


def _demands(control: Control, chains: list[Array]) -> Array:
    """The demand of each residual in units of lambda^r: f + r f' / lambda + ..."""
    rows = zip(chains, control.gains.rates.tolist(), strict=True)
    return np.array([sum(comb(len(f), j) * each / rate**j for j, each in enumerate(f)) for f, rate in rows])
