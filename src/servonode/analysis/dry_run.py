"""What a launch file will do, found by simulating it: peaks, conditions, steady residuals, the zero dynamics."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from servonode.analysis.aftermath import after_fault
from servonode.analysis.arrival import judge_arrival, judge_limits, missed_residuals
from servonode.analysis.extended_law import left_by_held_inputs, noise_of_demand
from servonode.analysis.internal_motion import Linearised
from servonode.analysis.observability import judge_estimate
from servonode.analysis.periodic_motion import Orbit
from servonode.analysis.remedies import working_rate
from servonode.analysis.sampled_loop import judge_sampling
from servonode.analysis.zero_dynamics import judge
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.static_checks import Examination, Level
from servonode.controllers import ServoLaw
from servonode.mechanics import discrete
from servonode.mechanics.stabilize import UnstableGains
from servonode.mechanics.stiffness import stiffness
from servonode.record.run import Run, default_every
from servonode.simulation.continuous_loop import ContinuousLoop
from servonode.simulation.event_integration import SimulationError
from servonode.simulation.simulate import can_fuse, simulate_fused

GROWTH = 3.0  # perturbations that grow more than this are warned of
FEW_ROWS = 10  # of a run whose eigenvalues are looked at
NO_ENERGY = 1e-12  # J, below which the balance is rounding
STEP_ERROR = 1e-3  # share of the energy turned over that the integrator may lose before it is warned of
ROWS = 400  # rows of the run at which W and the drift are looked at
MOST_STEPS = 2_000_000  # of a run that are simulated here, a second or two
MOST_SINGLE_STEPS = 200_000  # the same where drives, sensors or limits keep the loop from being compiled as a whole
JUDGED = 500.0  # s over which the zero dynamics is judged at most


def dry_run(closed_loop: ClosedLoop, found: Examination) -> None:
    """Simulate the sampled run and the zero dynamics; add findings and numbers to the examination.

    Of a long run only the beginning is looked at, which is reported.
    """
    whole, times = closed_loop.launch.duration_ns / 1e9, closed_loop.launch.times_of_steps
    closed_loop = _beginning(closed_loop)
    if closed_loop.launch.duration_ns / 1e9 < whole:
        text = f"long: only the first {closed_loop.launch.duration_ns / 1e9:g} s of {whole:g} s were simulated"
        found.add("warn", "run", f"{text}; give plant.step or run.duration such that it has fewer steps to see more")
    run = simulate_fused(closed_loop, default_every(closed_loop))
    if closed_loop.estimation is not None:
        ideal = simulate_fused(replace(closed_loop, estimation=None), default_every(closed_loop))
        judge_estimate(closed_loop, ideal, run, found)
    found.numbers["simulated"] = _peaks(closed_loop, run)
    if run.fault:
        rate = working_rate(closed_loop, _reached)
        text = f"ends by a fault at t = {run.fault['t']:.4g} s: {run.fault['text']}"
        found.add("refuse", "run", f"{text}; or {rate}" if rate else text)
    for each in run.warnings:
        if each.name == "machine":  # the others are judged below, by more than a run knows
            found.add("warn", "run", str(each))
    judge_limits(closed_loop, run, found)
    _judge_arming(closed_loop, found)
    _judge_energy(run, found, times)
    if closed_loop.machine.n_inputs:
        found.numbers["after_fault"] = after_fault(closed_loop, run, _largest_kinetic(run), found)
    control = closed_loop.control
    if control is None:
        return
    description = control.law.description
    if not description.explicit:
        _along(closed_loop, control, run, found)
        _noise(closed_loop, control, found)
    judge_arrival(closed_loop, control, run, found, lambda: working_rate(closed_loop, _reached))
    _judge_zero_dynamics(closed_loop, whole, found)


def _reached(closed_loop: ClosedLoop, run: Run) -> bool:
    """Whether a run with other rates than those of the launch file reaches its goal."""
    control, found = closed_loop.control, Examination(numbers={"simulated": {}})
    assert control is not None
    _along(closed_loop, control, run, found)
    _noise(closed_loop, control, found)
    return not found.refusals and not missed_residuals(closed_loop, run, found)


def _beginning(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop of as much of the run as can be simulated at once, in whole control periods; at least one."""
    launch = closed_loop.launch
    unit = launch.steps_per_period or 1
    most = MOST_STEPS if can_fuse(closed_loop) else MOST_SINGLE_STEPS
    steps = max(most - most % unit, min(unit, MOST_STEPS))
    if launch.steps <= steps:
        return closed_loop
    time_ns = steps * launch.step_ns
    run = msgspec.structs.replace(launch.run, duration=time_ns / 1e9)
    times = msgspec.structs.replace(launch.times, duration_ns=time_ns)
    return replace(closed_loop, launch=msgspec.structs.replace(launch, run=run, times=times))


def _rows(run: Run, most: int) -> Iterator[tuple[int, float, Array, Array]]:
    """About so many rows of a run, evenly spread: the row, its time [s], state as kernels take it, and inputs."""
    states, inputs = np.array(list(run.state.values())), run.inputs
    for i in range(0, len(run.t), max(1, len(run.t) // most)):
        yield i, float(run.t[i]), np.append(states[:, i], 0.0), np.ascontiguousarray(inputs[:, i])


def _peaks(closed_loop: ClosedLoop, run: Run) -> dict[str, Any]:
    """Largest demanded inputs, rates on which they work, and power [W], over the rows."""
    peaks = {name: float(np.max(np.abs(values))) for name, values in run.input.items()}
    power = [closed_loop.machine.derivatives(t, x, u)[-1] for _, t, x, u in _rows(run, ROWS)]
    return {
        "input_max": peaks,
        "power_max": float(np.max(power, initial=0.0)),
        "power_min": float(np.min(power, initial=0.0)),
        "residual_max": run.residual_max,
    }


def _judge_arming(closed_loop: ClosedLoop, found: Examination) -> None:
    peaks = found.numbers["simulated"]["input_max"]
    soft = closed_loop.safety.soft_start
    if soft.at_first and not soft.periods and closed_loop.control is not None:
        twice = ", ".join(f"{name} = {2 * peak:.2g}" for name, peak in peaks.items())
        text = "nothing limits the inputs after an arming: a machine that is far from its goal then lurches; give "
        found.add("warn", "limits", f"{text}plant.safety.arming_limit, such as twice the peaks here: {{ {twice} }}")


def _judge_energy(run: Run, found: Examination, times: Sequence[int]) -> None:
    """Whether the step is small enough: the energy balance is integrated beside the motion.

    times [ns]: those that a step must divide.
    """
    if run.fault:
        return
    scale = float(np.max(np.abs(run.work), initial=0.0)) + _largest_kinetic(run)
    stiff = _stiff(run, times)
    if run.energy_error > max(STEP_ERROR * scale, NO_ENERGY):
        text = f"the energy check is off by {run.energy_error:.2g} J of {scale:.3g} J turned over: "
        if run.closed_loop.driver.motion is not None:
            text += "an engine's contacts take it where they slip: give more friction, or a gentler goal; where the "
            found.add("warn", "contact", f"{text}machine has no contacts, shorten the step")
            return
        text += f"the step of {run.closed_loop.launch.step_ns / 1e9:g} s is too long for this motion; "
        found.add("warn", "step", text + (stiff or "shorten it"))
    elif stiff:
        found.add("warn", "step", f"a motion of this machine decays faster than the steps follow: {stiff}")


def _stiff(run: Run, times: Sequence[int]) -> str:
    """The stiffest motion along the run that its steps do not follow; empty where they follow all."""
    loop = run.closed_loop
    if loop.driver.motion is not None:
        return ""
    method, step = loop.launch.plant.integrator, loop.launch.step_ns / 1e9
    found = [stiffness(loop.machine, method, step, t, x, u, times) for _, t, x, u in _rows(run, FEW_ROWS)]
    worst = max((each for each in found if each), key=lambda each: each.size / each.limit, default=None)
    return str(worst) if worst else ""


def _largest_kinetic(run: Run) -> float:
    """The largest kinetic energy [J] over the rows that are looked at."""
    return max(0.0, *(run.closed_loop.machine.energies(t, x)[0] for _, t, x, _ in _rows(run, ROWS)))


def _along(closed_loop: ClosedLoop, control: Control, run: Run, found: Examination) -> None:
    """Condition of W along the run, and what the zero-order hold leaves of the residuals."""
    law, launch, machine = control.law, closed_loop.launch, closed_loop.machine
    assert launch.steps_per_period is not None
    period = control.times.period
    advance = machine.advancer(launch.plant.integrator)
    answer, conditions, largest = law.answer(), [], np.zeros(law.n_s)
    limits = np.array(closed_loop.safety.limits.value) * (1 - 1e-9)
    signs: list[tuple[float, float]] = []
    for i, t, x, u in _rows(run, ROWS):
        if i + 1 == len(run.t):
            break
        own = np.array([values[i] for values in run.program_state.values()])
        y = closed_loop.goal(t, own)
        if law.compute(t, x, y, answer):
            continue
        conditions.append((answer.condition, t))
        if law.description.extension is not None:
            signs.append((t, float(np.sign(np.linalg.det(law.terms(t, x, y)["W"])))))
        before = _Held(t, x.copy(), u, y, answer.inputs.copy())
        own = own + period * law.state_rates(t, x, y)
        advance(int(run.k[i]), launch.steps_per_period, launch.step_ns, x, u, machine.c)
        if run.t[i] > run.t[-1] / 2 and (np.abs(u) < limits).all():  # what starts off the program is over by then
            y = closed_loop.goal(t + period, own)
            law.compute(t + period, x, y, answer)
            after = _Held(t + period, x, u, y, answer.inputs)
            largest = np.maximum(largest, _hold_effect(closed_loop, control, before, after))
    _judge_crossing(law, signs, found)
    if not conditions:
        return
    worst, when = max(conditions)
    found.numbers["simulated"] |= {"condition_max": worst, "condition_max_t": when}
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

    def top_derivative(self, law: ServoLaw) -> Array:
        """f^(r) = W u + b of each residual under the inputs u."""
        terms = law.terms(self.t, self.x, self.y)
        result: Array = terms["W"] @ self.u + terms["b"]
        return result


def _hold_effect(closed_loop: ClosedLoop, control: Control, before: _Held, after: _Held) -> Array:
    """How fast f^(r) drifts under the held inputs; of a law with an extension what they leave of the residuals."""
    law = control.law
    if law.description.extension is not None:
        late = (after.wanted - before.wanted) * (0.5 + control.delay)
        return left_by_held_inputs(control, closed_loop.machine, before.t, before.x, before.y, late)
    ends = [each.top_derivative(law) for each in (before, after)]
    return np.abs(ends[1] - ends[0]) / control.times.period


def _noise(closed_loop: ClosedLoop, control: Control, found: Examination) -> None:
    """Standard deviation of the residuals caused by the sensors' noise, at the initial state."""
    noise = np.array(closed_loop.sensor.noise)
    if not noise.any() or control.gains.plain:
        return
    law, y, slopes = control.law, closed_loop.goal(0.0), []
    period, delay = control.times.period, control.delay
    names = [each.name for each in law.description.residuals]
    if law.description.extension is not None:
        s_f = noise_of_demand(control, closed_loop.start, y, noise)
        sigma = discrete.held_noise(control.gains, period, delay, s_f)
        found.numbers["noise_residual"] = dict(zip(names, map(float, sigma), strict=True))
        return
    for i in range(len(noise)):
        values = []
        for side in (1e-6, -1e-6):
            x = closed_loop.start.copy()
            x[i] += side
            answer = law.evaluate(0.0, x, y)
            values.append(np.append(answer.residuals, answer.rates))
        slopes.append((values[0] - values[1]) / 2e-6)
    s_f, s_f_dot = np.sqrt((np.array(slopes).T ** 2) @ noise**2).reshape(2, -1)
    sigma = discrete.held_noise(control.gains, period, delay, s_f, s_f_dot)
    found.numbers["noise_residual"] = dict(zip(names, map(float, sigma), strict=True))


def _judge_zero_dynamics(closed_loop: ClosedLoop, whole: float, found: Examination) -> None:
    """The judgement on what the program leaves free; `whole` [s] is the time of the run."""
    try:
        judgement = judge(closed_loop, min(closed_loop.launch.duration_ns / 1e9, JUDGED), whole)
    except SimulationError as error:
        found.add("warn", "zero dynamics", str(error))
        return
    found.numbers["zero_dynamics"] = {
        "judgement": judgement.judgement,
        "internal": list(judgement.internal),
        "rate": judgement.rate,
        "time": judgement.time,
        "equilibria": [_numbers(each) for each in judgement.equilibria],
        "along": [_numbers(each) for each in judgement.along],
        "orbit": _orbit_numbers(judgement.orbit),
    }
    level: Level = "refuse"
    if judgement.judgement == "bounded":
        departs = judgement.growth > GROWTH and not judgement.settled
        level = "warn" if departs or judgement.drifts or judgement.diverges else "good"
    assert closed_loop.control is not None
    description = closed_loop.control.law.description
    if not description.feeds_back and not description.residuals:  # there is no goal that could be missed
        level = "warn" if level == "refuse" else "good"
    explicit, fed = description.explicit, description.feeds_back
    found.add(level, "zero dynamics" if not explicit else "closed loop" if fed else "open loop", judgement.text)
    if explicit and fed and judgement.near:
        judge_sampling(ContinuousLoop(closed_loop), judgement.near[-1], judgement.passive, found)


def _orbit_numbers(orbit: Orbit | None) -> dict[str, Any] | None:
    """Period [s] and multipliers, as pairs, of a periodic motion, and a state on it; None without one."""
    if orbit is None:
        return None
    multipliers = [[float(rho.real), float(rho.imag)] for rho in orbit.multipliers]
    return _numbers(orbit) | {"period": orbit.period, "multipliers": multipliers}


def _numbers(at: Linearised) -> dict[str, Any]:
    """Time [s], eigenvalues [1/s] as pairs, and the states at which they were found."""
    eigenvalues = [[float(mu.real), float(mu.imag)] for mu in at.eigenvalues]
    return {"t": at.time, "eigenvalues": eigenvalues, "state": dict(zip(at.names, at.values, strict=True))}
